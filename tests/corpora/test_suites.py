"""
Test suites in SyntaxGym's format. Surprisal is compared with that of `LanguageModel.score`, whose
tokens are assigned to regions by hand.
"""

import csv
import json
import math
import statistics
import subprocess
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest

from elmo_plugin import Elmo, LanguageModel, TextWarning
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import suite_accuracies, suite_scores
from elmo_plugin.corpora.formulas import parse_formula
from elmo_plugin.corpora.pairs import pair_scores
from elmo_plugin.corpora.suites import read_suite
from elmo_plugin.text.advice_kinds import RAW_SPLITS
from elmo_plugin.text.raw_text import FIRST_WORDS
from tests.conftest import SHARED_DATA

AGREEMENT = (
    ("The keys to the old cabinet", "are", "on the table ."),
    (*("The keys to the old cabinet", "is", "on the table ."),),
)
FORMULA = "(2;%plural%) < (2;%singular%)"


def suite(formulas: list, items: list, metric: Any = "sum", name: str = "agreement") -> dict:
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


def test_the_advice_about_tokens(model: LanguageModel, tmp_path: Path) -> None:
    """By definition: only raw text is split by the rules of English, of which a model of another
    language is told, and other text that looks unsplit could be."""
    other = copy(model)
    other.known_words = [f"wort{k}" for k in range(FIRST_WORDS)]
    file = write(tmp_path / "suite.json", suite(["(*;%only%) > 0"], [{"only": ["It", "ran."]}]))
    for raw in (True, False):
        with pytest.warns(TextWarning) as said:
            suite_scores(other, file, raw)
        messages = [str(x.message) for x in said]
        assert any("by the rules of English" in x for x in messages) is raw
        assert any(x.endswith(RAW_SPLITS) for x in messages) is not raw


def test_a_region_of_all(model: LanguageModel, tmp_path: Path) -> None:
    """By definition: the region `*` is the sum of all regions. That of one without words is 0."""
    file = write(tmp_path / "suite.json", suite(["(*;%only%) > 0"], [{"only": REGIONS}]))
    (row,) = suite_scores(model, file, raw=True)
    total = sum(row[f"region_{k}"] for k in range(1, 7))
    for below, holds in ((total - 0.01, True), (total + 0.01, False)):
        formula = f"(*;%only%) + (3;%only%) > {below:.6f}"
        write(file, suite([formula], [{"only": REGIONS}]))
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
    found = suite_accuracies(pyarrow.Table.from_pylist(rows))
    table = pandas.DataFrame(found).set_index(["level", "name"])
    assert table["items"].tolist() == [3, 1, 1, 5]
    assert table["accuracy"].tolist() == [33.33, 100, 0, 44.44]
    assert table["formula_1"].tolist() == [33.33, 100, 0, 44.44]
    np.testing.assert_array_equal(table["formula_2"], [100, np.nan, np.nan, 100])


def test_the_example_of_syntaxgym_core() -> None:
    """Region 5 has the surprisal that is in the tests of syntaxgym-core, with which its formula is
    false, and true after 5,000 are added to the first condition, as there."""
    formula = "((5;%sub_no-matrix%) > (5;%no-sub_no-matrix%) ) "
    formula += "& ((5;%sub_matrix%) < (5;%no-sub_matrix%) )"
    values = {
        ("sub_no-matrix", "5"): 12.49306574242164,
        ("no-sub_no-matrix", "5"): 18.37796694276843,
        ("sub_matrix", "5"): 11.725874091041778,
        ("no-sub_matrix", "5"): 19.63184731373726,
    }
    parsed = parse_formula(formula, "")
    assert not parsed.holds(values)
    assert parsed.holds(values | {("sub_no-matrix", "5"): 5012.49306574242164})


FIRST, SECOND = "items 0 conditions 0", "items 0 conditions 1"


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        ("", [], r"expected a suite of SyntaxGym in JSON, an object, found \[\]"),
        ("meta metric", "all", "meta: metric: expected one of 'sum', .*, found 'all'"),
        ("predictions", [], r"predictions: expected a list of at least one, found \[\]"),
        ("predictions 0 type", "x", "prediction 1: type: expected one of 'formula', found 'x'"),
        ("predictions 0 formula", "2", "prediction 1: formula: expected comparisons .*, found '2'"),
        ("items", [5], "items: object 1: item_number: expected a whole number, found null"),
        ("items", agreement()["items"] * 2, "item 1: expected it once, found it twice"),
        ("items 0 item_number", True, "items: object 1: item_number: .* whole number, found true"),
        (f"{SECOND} condition_name", None, "item 1: condition_name: expected a string, found null"),
        (f"{SECOND} condition_name", "plural", "item 1: condition plural: expected it once"),
        (f"{SECOND} regions 0 region_number", "1", "singular: regions: object 1: region_number"),
        (f"{SECOND} regions 0 region_number", 2, "condition singular: region 2: expected it once"),
        (f"{SECOND} regions 0 content", None, "condition singular: region 1: content: expected a"),
        (
            f"{SECOND} regions",
            [{"region_number": 2, "content": " "}],
            "item 1: condition singular: expected regions with words, found ''",
        ),
        (
            "items 0 conditions",
            agreement()["items"][0]["conditions"][1:],
            "item 1: expected region 2 of condition plural, which a formula has, found none",
        ),
        (f"{FIRST} regions 1 content", "", "expected words in region 2 of condition plural"),
    ],
)
def test_wrong_suites(tmp_path: Path, keys: str, value: Any, message: str) -> None:
    """By definition: one sentence that names the file, the item, the key and what was expected. The
    mean of a region without words is none."""
    suite: Any = {"": agreement(metric="mean")}
    *places, last = (int(key) if key.isdigit() else key for key in f" {keys}".rstrip().split(" "))
    block = suite
    for place in places:
        block = block[place]
    block[last] = value
    file = write(tmp_path / "x.json", suite[""])
    with pytest.raises(InputError, match=f"^{file}: .*{message}"):
        read_suite(file)


@pytest.mark.parametrize("compute", [suite_scores, pair_scores])
def test_no_state_is_carried(compute: Callable[..., Any], bilm_archive: str) -> None:
    """Expected: an error that names the parameter, before a file is read, because the sentences do
    not follow one another."""
    model = LanguageModel.from_archive(bilm_archive, initial_state="carry")
    with pytest.raises(InputError, match=r"^initial_state: expected zero or warm, .*carry"):
        compute(model, Path("missing"))
    with pytest.raises(InputError, match=r"^model: expected a LanguageModel, found Elmo"):
        compute(Elmo(model.bilm), Path("missing"))


def test_wrong_files(model: LanguageModel, tmp_path: Path) -> None:
    """By definition: suites have different names, and there is at least one."""
    files = [write(tmp_path / name, agreement()) for name in ("x.json", "y.json")]
    with pytest.raises(InputError, match=r"y\.json: meta: name 'agreement': expected it once"):
        suite_scores(model, files)
    with pytest.raises(InputError, match=r"^files: expected at least one suite, found"):
        suite_scores(model, [])
    with pytest.raises(InputError, match=r"^rows: expected at least one, found \[\]$"):
        suite_accuracies([])


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
