"""
Test suites in the format of SyntaxGym (Gauthier et al. 2020), such as those of Hu et al. (2020): in
how many items a language model's surprisal in regions of sentences is as the formulas predict.
"""

import re
from collections.abc import Iterable
from itertools import zip_longest
from math import nan
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import InputError, check_choice, check_flag, fail
from elmo_plugin.corpora.formulas import Formula, parse_formula
from elmo_plugin.corpora.spans import check_state
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.elmo.scores import SentenceScores
from elmo_plugin.formats.json_and_text import read_json
from elmo_plugin.text.advice import advised
from elmo_plugin.text.forms import paths_of, records_of, row_of

METRICS: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "median": np.median}
METRICS |= {"range": np.ptp, "max": np.max, "min": np.min}
"""The values of a region that a suite may compare, from the surprisal of its tokens."""

WHOLE = "*"
"""The number of a region that stands for the whole sentence."""

KINDS = {dict: "an object", list: "a list of at least one", str: "a string", int: "a whole number"}

Spans = dict[str, tuple[int, int]]
"""The first character of each region, by its number, and the one after its last."""


class Suite(NamedTuple):
    """`items`: by the item's number and the condition's name, a sentence and its regions."""

    name: str
    metric: str
    formulas: list[Formula]
    items: dict[int, dict[str, tuple[str, Spans]]]

    @property
    def conditions(self) -> list[tuple[str, Spans]]:
        return [x for item in self.items.values() for x in item.values()]


def read_suite(file: str | PathLike) -> Suite:
    """
    Read a suite in JSON. Keys that are not needed, such as `region_meta`, may be there. Raises an
    `InputError` that names the file, the item and the key if it has another form, or if a formula
    has a region that an item lacks.
    """
    block = read_json(file, "a suite of SyntaxGym")
    meta = _get(block, "meta", dict, file)
    name = _get(meta, "name", str, f"{file}: meta")
    metric = check_choice(f"{file}: meta: metric", meta.get("metric"), METRICS)
    formulas = []
    for k, prediction in enumerate(_get(block, "predictions", list, file), start=1):
        where = f"{file}: prediction {k}"
        check_choice(f"{where}: type", _get(prediction, "type", str, where), ["formula"])
        formulas.append(parse_formula(_get(prediction, "formula", str, where), where))
    items: dict[int, dict[str, tuple[str, Spans]]] = {}
    for k, item in enumerate(_get(block, "items", list, file), start=1):
        number = _get(item, "item_number", int, f"{file}: items: object {k}")
        where = f"{file}: item {number}"
        _add(items, number, {}, where)
        for condition in _get(item, "conditions", list, where):
            name_of_condition = _get(condition, "condition_name", str, where)
            own = f"{where}: condition {name_of_condition}"
            _add(items[number], name_of_condition, _sentence(condition, own), own)
        for condition, region in (term for formula in formulas for term in formula.terms):
            _, spans = items[number].get(condition, ("", {}))
            start, end = spans.get(region, (0, -1))
            if start > end or (start == end and metric != "sum"):
                expected = f"{'words in ' * (start == end)}region {region} of condition {condition}"
                raise InputError(f"{where}: expected {expected}, which a formula has, found none")
    return Suite(name, metric, formulas, items)


def _sentence(condition: Any, name: str) -> tuple[str, Spans]:
    """The regions of a condition with single spaces between them, and their places."""
    sentence = ""
    spans: Spans = {}
    for k, region in enumerate(_get(condition, "regions", list, name), start=1):
        number = _get(region, "region_number", int, f"{name}: regions: object {k}")
        content = " ".join(_get(region, "content", str, f"{name}: region {number}").split())
        sentence = f"{sentence} {content}".strip()
        span = len(sentence) - len(content), len(sentence)
        _add(spans, str(number), span, f"{name}: region {number}")
    if not sentence:
        fail(name, "regions with words", sentence)
    return sentence, spans | {WHOLE: (0, len(sentence))}


def _get(block: Any, key: str, kind: type, name: Any) -> Any:
    value = block.get(key) if isinstance(block, dict) else None
    if type(value) is not kind or value == []:  # a boolean is an integer too
        fail(f"{name}: {key}", KINDS[kind], value)
    return value


def _add(block: dict[Any, Any], key: Any, value: Any, name: str) -> None:
    if key in block:
        raise InputError(f"{name}: expected it once, found it twice")
    block[key] = value


@advised()
def suite_scores(
    model: LanguageModel, files: Iterable[str | PathLike], raw: bool = False
) -> list[dict[str, Any]]:
    """
    Compute the surprisal of each region, and whether each formula holds.

    # Parameters

    model : `LanguageModel`
        The model, whose forward direction gives the surprisal.
    files : `Iterable[str | PathLike]`
        Suites in JSON.
    raw : `bool`, optional (default = `False`)
        Whether the regions are raw text, as in `LanguageModel.score`, as those of English suites
        are. By default tokens are separated by spaces.

    # Returns

    `list[dict[str, Any]]`
        A row for each condition of each item: `suite`, `item`, `condition`, `sentence`, the number
        of its tokens outside the vocabulary (`unknown`), whether all formulas hold for the item
        (`correct`) and each of them (`formula_1` ..), and the suite's metric of the surprisal of
        each region in bits (`region_1` ..). Formulas that a suite lacks are `None`, and regions
        NaN. So is a region without words, if the metric is not the sum, which is 0.

    # Raises

    `InputError`
        As `read_suite`, if two suites have the same name, and if `initial_state` is `"carry"`.
    """
    check_flag("raw", raw)
    check_state(model, LanguageModel)
    suites: dict[str, Suite] = {}
    for file in paths_of(files):
        suite = read_suite(file)
        _add(suites, suite.name, suite, f"{file}: meta: name {suite.name!r}")
    if not suites:
        fail("files", "at least one suite", [])
    n_formulas = max(len(suite.formulas) for suite in suites.values())
    spans_of_all = (spans for suite in suites.values() for _, spans in suite.conditions)
    regions = sorted({int(k) for spans in spans_of_all for k in spans if k != WHOLE})
    rows = []
    for suite in tqdm(suites.values(), unit=" suites"):
        scores = iter(model.score([row_of("", sentence, raw) for sentence, _ in suite.conditions]))
        for number, item in suite.items.items():
            own = {name: next(scores) for name in item}
            values = {
                (name, region): _value(suite.metric, own[name], sentence, *span)
                for name, (sentence, spans) in item.items()
                for region, span in spans.items()
            }
            holds = [formula.holds(values) for formula in suite.formulas]
            columns = ["correct", *(f"formula_{k + 1}" for k in range(n_formulas))]
            of_item = dict(zip_longest(columns, [all(holds), *holds]))
            for name, (sentence, _) in item.items():
                row = {"suite": suite.name, "item": number, "condition": name, "sentence": sentence}
                row |= {"unknown": int((~own[name].in_vocabulary).sum())} | of_item
                rows.append(row | {f"region_{k}": values.get((name, str(k)), nan) for k in regions})
    return rows


def _value(metric: str, scores: SentenceScores, sentence: str, start: int, end: int) -> float:
    """
    The metric of a region. A token has no spaces, and regions have one between them, so each token
    is in one region.
    """
    spans = scores.spans or [match.span() for match in re.finditer(r"\S+", sentence)]
    inside = [start <= first < end for first, _ in spans]
    surprisal = scores.surprisal[inside]
    return float(METRICS[metric](surprisal)) if metric == "sum" or any(inside) else nan


def suite_accuracies(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    One row for each suite out of the rows of `suite_scores`, and one with the means over suites.
    `accuracy` is the percentage of items for which all formulas hold, and `formula_1` .. those of
    each formula. `rows` may be a DataFrame. Raises an `InputError` if there are no rows.
    """
    suites: dict[str, dict[int, dict[str, Any]]] = {}
    for row in records_of(rows):  # those of an item agree
        suites.setdefault(row["suite"], {})[row["item"]] = row
        columns = [key for key in row if key == "correct" or key.startswith("formula_")]
    if not suites:
        fail("rows", "at least one", [])
    means = [
        np.array([[item[key] for key in columns] for item in items.values()], float).mean(axis=0)
        for items in suites.values()
    ]
    names = [("suite", name, len(items)) for name, items in suites.items()]
    names.append(("all", "all", sum(n for _, _, n in names)))
    columns[0] = "accuracy"
    return [
        dict(zip(("level", "name", "items", *columns), (*name, *(100 * mean).round(2).tolist())))
        for name, mean in zip(names, [*means, np.nanmean(means, axis=0)])
    ]
