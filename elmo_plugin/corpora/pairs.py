"""
Accuracy on minimal pairs in the format of BLiMP (Warstadt et al. 2020): how often a language model
gives the acceptable sentence the higher score.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import InputError, shown
from elmo_plugin.corpora.spans import check_state
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.elmo.scores import DIRECTIONS, SentenceScores
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.advice import advised
from elmo_plugin.text.forms import paths_of, records_of
from elmo_plugin.text.lines import read_lines
from elmo_plugin.text.sentence import groups

ROUNDING = 1e-4
"""Differences in bits below this are ties, because batches of other shapes round differently."""

AT_ONCE = 1024
"""Number of pairs that are scored at a time."""


class Pair(NamedTuple):
    sentence_good: str
    sentence_bad: str
    paradigm: str
    phenomenon: str


def read_pairs(file: Path) -> Iterator[Pair]:
    """
    The pairs of a JSONL file with the keys `sentence_good` and `sentence_bad`, and optionally `UID`
    (the paradigm, by default the file's name) and `linguistics_term` (the phenomenon, by default
    empty). Raises an `InputError` that names the line if it has another form.
    """
    lines = read_lines(Path(local_path(file, "a file of pairs")), str(file), is_text=False)
    for number, line in enumerate(lines, start=1):
        try:
            pair = json.loads(line)
            values = [pair["sentence_good"], pair["sentence_bad"]]
            values += [pair.get("UID", file.stem), pair.get("linguistics_term", "")]
            if not all(isinstance(x, str) for x in values) or not all(map(str.strip, values[:2])):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{file}, line {number}: expected a JSON object with the sentences sentence_good "
                "and sentence_bad, and strings if it has UID and linguistics_term, "
                f"found {shown(line)}"
            ) from None
        yield Pair(*values)


@advised()
def pair_scores(
    model: LanguageModel,
    files: Iterable[str | PathLike],
    raw: bool = False,
    per_token: bool = False,
) -> list[dict[str, Any]]:
    """
    A row for each pair. `forward_good` and so on are the sums of the log probabilities in bits, or
    with `per_token` their means over `SentenceScores.n_predictions`. `unknown_pair` says whether
    the sentences differ, and only in words outside the vocabulary. `raw`: see
    `LanguageModel.score`.
    """
    check_state(model, LanguageModel)
    rows: list[dict[str, Any]] = []
    pairs = chain.from_iterable(map(read_pairs, paths_of(files)))
    with tqdm(unit=" pairs") as progress:
        for group in groups(pairs, AT_ONCE):
            sentences: list[Any] = [s for pair in group for s in pair[:2]]
            scores = model.score(sentences if raw else [s.split() for s in sentences], raw=raw)
            for pair, good, bad in zip(group, scores[::2], scores[1::2]):
                rows.append(pair._asdict() | _scores(good, bad, per_token))
            progress.update(len(group))
    if not rows:
        raise InputError("--pairs: expected at least one pair, found none in these files")
    return rows


def _scores(good: SentenceScores, bad: SentenceScores, per_token: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in DIRECTIONS[1:]:
        for kind, x in (("good", good), ("bad", bad)):
            n = x.n_predictions if per_token else 1
            row[f"{name}_{kind}"] = float(getattr(x, name).sum() / n)
    one, other = ([w if k else None for w, k in zip(*x[:2])] for x in (good, bad))
    is_unknown = one == other and good.tokens != bad.tokens
    return row | {"tokens_good": len(one), "tokens_bad": len(other), "unknown_pair": is_unknown}


def pair_accuracies(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    One row for each paradigm, each phenomenon and all pairs out of the rows of `pair_scores`.
    `forward`, `backward` and `both` are the percentages of pairs whose acceptable sentence has the
    higher score in a direction, or the higher sum of both directions; a tie is not one of them.
    `.._ties` are the percentages of ties, `unknown_pairs` is the number of unknown pairs, and
    `.._known` are the percentages for the other pairs. A pair of equal sentences is a tie in both.
    """
    grouped: dict[tuple[str, str, str], list[Any]] = {}
    for row in records_of(rows):
        name, kind = row["paradigm"], row["phenomenon"]
        for key in (("paradigm", name, kind), ("phenomenon", kind, kind), ("all", "all", "")):
            grouped.setdefault(key, []).append(row)
    order = ("paradigm", "phenomenon", "all")
    return [_row(*key, grouped[key]) for key in sorted(grouped, key=lambda k: order.index(k[0]))]


def _row(level: str, name: str, phenomenon: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    forward, backward = (
        np.array([row[f"{d}_good"] - row[f"{d}_bad"] for row in rows]) for d in DIRECTIONS[1:]
    )
    known = np.array([not row["unknown_pair"] for row in rows])
    differences = dict(zip(DIRECTIONS, (forward + backward, forward, backward)))
    row = {"level": level, "name": name, "phenomenon": phenomenon, "pairs": len(rows)}
    row |= {d: _percent(x >= ROUNDING) for d, x in differences.items()}
    row |= {f"{d}_ties": _percent(abs(x) < ROUNDING) for d, x in differences.items()}
    row["unknown_pairs"] = int((~known).sum())
    return row | {f"{d}_known": _percent(x[known] >= ROUNDING) for d, x in differences.items()}


def _percent(which: np.ndarray) -> float | None:
    return round(100 * int(which.sum()) / len(which), 2) if len(which) else None
