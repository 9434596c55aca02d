"""
Accuracy on minimal pairs in the format of BLiMP (Warstadt et al. 2020): how often a language model
gives the acceptable sentence the higher score.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import InputError, shown
from elmo_plugin.elmo.language_model import DIRECTIONS, LanguageModel
from elmo_plugin.elmo.scores import SentenceScores
from elmo_plugin.elmo.sentences import groups, one_call
from elmo_plugin.text.lines import read_lines

ROUNDING = 1e-4
"""Differences in bits below this are ties, because batches of other shapes round differently."""

AT_ONCE = 1024
"""Number of pairs that are scored at a time."""


class Pair(NamedTuple):
    good: str
    bad: str
    paradigm: str
    phenomenon: str


def read_pairs(file: Path) -> Iterator[Pair]:
    """
    The pairs of a JSONL file with the keys `sentence_good` and `sentence_bad`, and optionally `UID`
    (the paradigm, by default the file's name) and `linguistics_term` (the phenomenon, by default
    empty). Raises an `InputError` that names the line if it has another form.
    """
    lines = read_lines(file, is_text=False)
    for number, line in enumerate(lines, start=1):
        try:
            pair = json.loads(line)
            values = [pair["sentence_good"], pair["sentence_bad"]]
            values += [pair.get("UID", file.stem), pair.get("linguistics_term", "")]
            if not all(isinstance(value, str) for value in values) or not all(values[:2]):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{file}, line {number}: expected a JSON object with the sentences sentence_good "
                f"and sentence_bad, found {shown(line)}"
            ) from None
        yield Pair(*values)


def pair_accuracies(
    model: LanguageModel, files: Iterable[Path], raw: bool = False
) -> list[dict[str, Any]]:
    """
    One row for each paradigm, each phenomenon and all pairs. `forward`, `backward` and `both` are
    the percentages of pairs whose acceptable sentence has the higher log probability in a
    direction, or the higher sum of both directions; a tie is not one of them. `.._ties` are the
    percentages of ties. `unknown_pairs` is the number of pairs whose sentences are equal if all
    words that the softmax lacks are regarded as one, and `.._known` are the percentages for the
    other pairs. `raw`: see `LanguageModel.score`.
    """
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    pairs = chain.from_iterable(map(read_pairs, files))
    with one_call(), tqdm(unit=" pairs") as progress:
        for group in groups(pairs, AT_ONCE):
            sentences: list[Any] = [s for pair in group for s in (pair.good, pair.bad)]
            scores = model.score(sentences if raw else [s.split() for s in sentences], raw=raw)
            for pair, good, bad in zip(group, scores[::2], scores[1::2]):
                counted = _compared(good, bad)
                for key in (
                    ("paradigm", pair.paradigm, pair.phenomenon),
                    ("phenomenon", pair.phenomenon, pair.phenomenon),
                    ("all", "all", ""),
                ):
                    counts.setdefault(key, Counter()).update(counted)
            progress.update(len(group))
    if not counts:
        raise InputError("--pairs: expected at least one pair, found none in these files")
    order = ("paradigm", "phenomenon", "all")
    return [_row(*key, counts[key]) for key in sorted(counts, key=lambda k: order.index(k[0]))]


def _compared(good: SentenceScores, bad: SentenceScores) -> list[str]:
    """What to count for a pair."""
    sums = [np.array([x.forward.sum(), x.backward.sum()]) for x in (good, bad)]
    forward, backward = sums[0] - sums[1]
    one, other = (
        [word if known else None for word, known in zip(x.tokens, x.in_vocabulary)]
        for x in (good, bad)
    )
    counted = ["pairs", *(["unknown_pairs"] if one == other else [])]
    for name, difference in zip(DIRECTIONS, (forward + backward, forward, backward)):
        if abs(difference) < ROUNDING:
            counted.append(f"{name}_ties")
        elif difference > 0:
            counted += [name, *([f"{name}_known"] if one != other else [])]
    return counted


def _row(level: str, name: str, phenomenon: str, count: Counter[str]) -> dict[str, Any]:
    n, n_unknown = count["pairs"], count["unknown_pairs"]
    row: dict[str, Any] = {"level": level, "name": name, "phenomenon": phenomenon, "pairs": n}
    row |= {d: round(100 * count[d] / n, 2) for d in DIRECTIONS}
    row |= {f"{d}_ties": round(100 * count[f"{d}_ties"] / n, 2) for d in DIRECTIONS}
    row["unknown_pairs"] = n_unknown
    known = {f"{d}_known": count[f"{d}_known"] for d in DIRECTIONS}
    return row | {
        key: round(100 * x / (n - n_unknown), 2) if n > n_unknown else None
        for key, x in known.items()
    }
