"""
Test suites in SyntaxGym's format. Surprisal is compared with that of `LanguageModel.score`, whose
tokens are assigned to regions by hand.
"""

import csv
import json
import math
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import suite_accuracies, suite_scores
from elmo_plugin.corpora.formulas import parse_formula
from elmo_plugin.corpora.suites import read_suite
from tests.conftest import SHARED_DATA

AGREEMENT = (
    ("The keys to the old cabinet", "are", "on the table ."),
    (*("The keys to the old cabinet", "is", "on the table ."),),
)
FORMULA = "(2;%plural%) < (2;%singular%)"


def suite(
    formulas: list[str], items: list[dict[str, Any]], metric: Any = "sum", name: str = "agreement"
) -> dict[str, Any]:
    """A suite from the regions of each condition of each item."""
    return {
        "meta": {"name": name, "metric": metric},
        "region_meta": {"1": "subject", "2": "verb", "3": "rest"},
        "predictions": [{"type": "formula", "formula": formula} for formula in formulas],
        "items": [
            {
                "item_number": k,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": n, "content": content}
                            for n, content in enumerate(contents, start=1)
                        ],
                    }
                    for condition, contents in item.items()
                ],
            }
            for k, item in enumerate(items, start=1)
        ],
    }


def agreement(**kwargs: Any) -> dict[str, Any]:
    return suite([FORMULA], [dict(zip(("plural", "singular"), AGREEMENT))], **kwargs)


def write(path: Path, block: Any) -> Path:
    path.write_text(json.dumps(block), "utf-8")
    return path


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel.from_pretrained("tiny")


TOKENS = "The dog isn't old , but the dog 's bowl is ."
REGIONS = ["The dog", "isn't  old ", "", ", but the dog", "'s bowl is", "."]
SPLIT = [["The", "dog"], ["is", "n't", "old"], [], [",", "but", "the", "dog"], ["'s", "bowl", "is"]]
SPLIT += [["."]]


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("metric", ["sum", "mean", "median", "range", "max", "min"])
def test_regions(model: LanguageModel, tmp_path: Path, metric: str, raw: bool) -> None:
    """Expected: the metric by `statistics` of the surprisal of the tokens, which are listed, in the
    sentence without the spaces at the ends of regions. The sum of an empty region is 0."""
    formulas = ["(2;%only%) > 0", "(2;%only%) < (*;%only%)"]
    file = write(tmp_path / "suite.json", suite(formulas, [{"only": REGIONS}], metric))
    (row,) = suite_scores(model, [file], raw)
    tokens = SPLIT if raw else [region.split() for region in REGIONS]
    surprisal = iter(model.score([[x for region in tokens for x in region]])[0].surprisal.tolist())
    functions: dict[str, Any] = {"sum": sum, "mean": statistics.mean, "max": max, "min": min}
    functions |= {"median": statistics.median, "range": lambda x: max(x) - min(x)}
    for number, region in enumerate(tokens, start=1):
        values = [next(surprisal) for _ in region]
        expected = functions[metric](values) if values else 0 if metric == "sum" else math.nan
        assert row[f"region_{number}"] == pytest.approx(expected, abs=1e-5, nan_ok=True)
    assert row["sentence"] == TOKENS
    assert row["unknown"] == sum(x not in model.words for region in tokens for x in region)
    assert row["formula_1"] is (row["region_2"] > 0)


def test_a_region_of_all(model: LanguageModel, tmp_path: Path) -> None:
    """By definition: the region `*` is the sum of all regions."""
    file = write(tmp_path / "suite.json", suite(["(*;%only%) > 0"], [{"only": REGIONS}]))
    (row,) = suite_scores(model, file, raw=True)
    total = sum(row[f"region_{k}"] for k in range(1, 7))
    for below, holds in ((total - 0.01, True), (total + 0.01, False)):
        write(file, suite([f"(*;%only%) > {below:.6f}"], [{"only": REGIONS}]))
        assert suite_scores(model, file, raw=True)[0]["correct"] is holds


def test_accuracies(model: LanguageModel, tmp_path: Path) -> None:
    """By hand: which of the items are right is decided by formulas of constants and by the scores
    of `LanguageModel.score`, and the last row is the mean over suites."""
    scores = [model.score(" ".join(regions)).surprisal[6] for regions in AGREEMENT]
    right, wrong = FORMULA, FORMULA.replace("<", ">")
    if scores[0] > scores[1]:
        right, wrong = wrong, right
    item = dict(zip(("plural", "singular"), AGREEMENT))
    swapped = dict(zip(("singular", "plural"), AGREEMENT))
    files = [
        write(tmp_path / "one.json", suite([right, "1 > 0"], [item, swapped, swapped], name="one")),
        write(tmp_path / "two.json", suite([right], [item], name="two")),
        write(tmp_path / "three.json", suite([wrong], [item], name="three")),
    ]
    rows = suite_scores(model, files)
    assert [row["condition"] for row in rows[:4]] == ["plural", "singular", "singular", "plural"]
    assert [row["correct"] for row in rows] == [True] * 2 + [False] * 4 + [True] * 2 + [False] * 2
    assert [row["formula_2"] for row in rows] == [True] * 6 + [None] * 4
    assert rows[0]["region_2"] == pytest.approx(scores[0], abs=1e-5)
    table = pandas.DataFrame(suite_accuracies(rows)).set_index(["level", "name"])
    assert table["items"].tolist() == [3, 1, 1, 5]
    assert table["accuracy"].tolist() == [33.33, 100, 0, 44.44]
    assert table["formula_1"].tolist() == [33.33, 100, 0, 44.44]
    np.testing.assert_array_equal(table["formula_2"], [100, np.nan, np.nan, 100])


def test_the_example_of_syntaxgym_core() -> None:
    """Region 5 has the surprisal that is in the tests of syntaxgym-core, with which its formula is
    false, and true after 5,000 are added to the first condition, as there."""
    formula = (
        "((5;%sub_no-matrix%) > (5;%no-sub_no-matrix%) ) "
        "& ((5;%sub_matrix%) < (5;%no-sub_matrix%) )"
    )
    values = {
        ("sub_no-matrix", "5"): 12.49306574242164,
        ("no-sub_no-matrix", "5"): 18.37796694276843,
        ("sub_matrix", "5"): 11.725874091041778,
        ("no-sub_matrix", "5"): 19.63184731373726,
    }
    parsed = parse_formula(formula, "")
    assert not parsed.holds(values)
    assert parsed.holds(values | {("sub_no-matrix", "5"): 5012.49306574242164})


def test_wrong_suites(model: LanguageModel, tmp_path: Path) -> None:
    """By definition: one sentence that names the file, the item, the key and what was expected."""

    def message(change: Any) -> str:
        block = agreement()
        changed = change(block)
        with pytest.raises(InputError) as error:
            read_suite(write(tmp_path / "x.json", block if changed is None else changed))
        text = str(error.value)
        assert text.startswith(f"{tmp_path / 'x.json'}: ")
        return text.removeprefix(f"{tmp_path / 'x.json'}: ")

    def put(value: Any, *keys: Any) -> Any:
        def change(block: Any) -> None:
            for key in keys[:-1]:
                block = block[key]
            block[keys[-1]] = value

        return change

    condition = "items", 0, "conditions", 1
    expected = {
        "expected a suite of SyntaxGym in JSON, an object, found []": lambda _: [],
        "meta: expected an object, found null": put(None, "meta"),
        "meta: name: expected a string, found 5": put(5, "meta", "name"),
        "meta: metric: expected one of 'sum', 'mean', 'median', 'range', 'max', 'min', found "
        "'all'": put("all", "meta", "metric"),
        "predictions: expected a list of at least one, found []": put([], "predictions"),
        "prediction 1: type: expected one of 'formula', found 'x'": (
            put("x", "predictions", 0, "type")
        ),
        "prediction 1: formula: expected comparisons of regions, such as (2;%a%) > (2;%b%), found "
        "'2'": put("2", "predictions", 0, "formula"),
        "items: expected a list of at least one, found null": put(None, "items"),
        "items: object 1: item_number: expected a whole number, found true": (
            put(True, "items", 0, "item_number")
        ),
        "items: object 1: item_number: expected a whole number, found null": put([5], "items"),
        "item 1: conditions: expected a list of at least one, found {}": (
            put({}, "items", 0, "conditions")
        ),
        "item 1: condition_name: expected a string, found null": (
            put(None, *condition, "condition_name")
        ),
        "item 1: condition plural: expected it once, found it twice": (
            put("plural", *condition, "condition_name")
        ),
        "item 1: condition singular: regions: object 1: region_number: expected a whole number, "
        "found '1'": put("1", *condition, "regions", 0, "region_number"),
        "item 1: condition singular: region 2: expected it once, found it twice": (
            put(2, *condition, "regions", 0, "region_number")
        ),
        "item 1: condition singular: region 1: content: expected a string, found null": (
            put(None, *condition, "regions", 0, "content")
        ),
        "item 1: condition singular: expected regions with words, found ''": (
            put([{"region_number": 2, "content": " "}], *condition, "regions")
        ),
        "item 1: expected region 2 of condition singular, which a formula has, found none": (
            put([{"region_number": 1, "content": "It"}], *condition, "regions")
        ),
        "item 1: expected region 2 of condition plural, which a formula has, found none": (
            lambda block: block["items"][0]["conditions"].pop(0) and None
        ),
        "item 1: expected it once, found it twice": (
            lambda block: block["items"].append(block["items"][0])
        ),
    }
    for text, change in expected.items():
        assert message(change) == text
    block = agreement(metric="mean")
    block["items"][0]["conditions"][0]["regions"][1]["content"] = ""
    message(lambda _: block)
    assert message(lambda _: block) == (
        "item 1: expected words in region 2 of condition plural, which a formula has, found none"
    )
    file = write(tmp_path / "x.json", agreement())
    other = write(tmp_path / "y.json", agreement())
    with pytest.raises(
        InputError, match=r"y.json: meta: name 'agreement': expected it once, found"
    ):
        suite_scores(model, [file, other])
    with pytest.raises(InputError, match=r"^files: expected at least one suite, found"):
        suite_scores(model, [])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (SHARED_DATA / "unpack").exists():
        pytest.skip(f"{SHARED_DATA} is not there")
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([SHARED_DATA / "unpack", folder, "syntaxgym"], check=True)
    return folder / "syntaxgym"


def test_the_suites_of_hu_et_al(published: Path) -> None:
    """All 34 can be read, and have the items of the published results, which are numbered from 0
    there. Each region that begins with a space or ends with one is read without it."""
    suites = [read_suite(file) for file in sorted((published / "suites").glob("*.json"))]
    assert len(suites) == 34
    with (published / "published" / "syntaxgym_results_grnn_.csv").open() as file:
        expected: dict[str, set[int]] = {}
        for row in csv.DictReader(file):
            expected.setdefault(row["suite"], set()).add(int(row["item"]) + 1)
    assert {x.name: set(x.items) for x in suites} == expected
    sentences = [sentence for x in suites for sentence, _ in x.conditions]
    assert not [s for s in sentences if "  " in s or s != s.strip()]
