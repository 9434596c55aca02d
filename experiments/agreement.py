"""
Long-distance subject-verb agreement (Gulordava et al. 2018): in which share of the sentences is the
right form of the verb more probable than the wrong one?

    python -m experiments.agreement English.best_model.tab small=pretrained://small

The file is the English one of the authors' repository, `colorlessgreenRNNs`. It has two rows for
each sentence: a prefix with one form of the verb, and in the last column the log probability that
the authors' best LSTM gives this form. Of 41 *original* sentences from corpora there are nine
*nonsense* sentences each, in which other words of the same category replace the content words.

A sentence counts if the right form is more probable after the prefix, from left to right. It does
not in a tie, or if a form is outside the softmax vocabulary. Only the counts for each original
sentence are saved. The intervals of nonsense sentences and of differences come from
resampling the original sentences, because the nine that were made of one are not independent; the
intervals of original sentences are Wilson's.

Each model is `NAME=ARCHIVE`, where ARCHIVE may be anything that `archive_file` accepts, if it has
a softmax. Each prefix is read from the `warm` state.
"""

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_plugin import LanguageModel
from experiments import new_parser, run
from experiments.intervals import Interval, resampled, wilson
from experiments.markdown import table
from experiments.rows import RESULTS, Row, known_rows, named_archive, result_row, save_rows

FILE = RESULTS / "agreement.jsonl"
ORIGINAL, NONSENSE = KINDS = "original", "nonsense"
LSTM = "LSTM of Gulordava et al."
CONSTRUCTIONS = {
    "L__NOUN_VERB_VERB": "a verb agrees with its noun",
    "R__VERB_NOUN_CCONJ_VERB": "a verb agrees with a coordinated verb",
}
"""What the authors' patterns are."""


class Item(NamedTuple):
    """
    A sentence. `source`: the original sentence that it is or was made of. `forms`: the right form
    and the wrong one. `published`: the log probability of each by the authors' LSTM.
    """

    source: str
    construction: str
    attractors: int
    kind: str
    prefix: str
    forms: tuple[str, str]
    published: tuple[float, float]


def read_items(file: Path) -> list[Item]:
    """The sentences of the authors' file."""
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        score = (reader.fieldnames or [""])[-1]
        forms: dict[tuple[str, str, str], dict[str, Row]] = {}
        for row in reader:
            key = row["pattern"], row["constr_id"], row["sent_id"]
            forms.setdefault(key, {})[row["class"]] = row
    items = []
    for (pattern, number, _), pair in forms.items():
        right, wrong = pair["correct"], pair["wrong"]
        items.append(
            Item(
                f"{pattern} {number}",
                CONSTRUCTIONS[pattern],
                int(right["n_attr"]),
                ORIGINAL if right["type"] == "original" else NONSENSE,
                right["prefix"],
                (right["form"], wrong["form"]),
                (float(right[score]), float(wrong[score])),
            )
        )
    return items


def metrics_of(items: Sequence[Item], scores: np.ndarray) -> Row:
    """
    The counts of each original sentence. `scores`: the log probability of the right form and the
    wrong one, shape `(n, 2)`, NaN for an unknown one.
    """
    sources: dict[str, Row] = {}
    for item, (right, wrong) in zip(items, scores):
        facts: Row = {"construction": item.construction, "attractors": item.attractors}
        facts |= {kind: dict.fromkeys(("sentences", "right", "unknown"), 0) for kind in KINDS}
        counts = sources.setdefault(item.source, facts)[item.kind]
        counts["sentences"] += 1
        counts["right"] += int(right > wrong)
        counts["unknown"] += int(np.isnan([right, wrong]).any())
    return {"sources": dict(sorted(sources.items()))}


def agreement_rows(file: Path, models: Sequence[tuple[str, LanguageModel]]) -> list[Row]:
    """The row of the published LSTM and those of models."""
    started = time.process_time()
    items = read_items(file)
    metrics = metrics_of(items, np.array([item.published for item in items]))
    rows = [result_row(None, None, {"model": LSTM}, metrics, started)]
    prefixes = [item.prefix.split() for item in items]
    forms = [list(item.forms) for item in items]
    for name, model in models:
        started = time.process_time()
        scores = np.array(model.score_continuations(prefixes, forms, unknown_missing=True))
        rows.append(result_row(name, model, {"model": name}, metrics_of(items, scores), started))
    return rows


Part = Callable[[Row], bool]
"""Whether an original sentence, a row of `sources`, belongs to a part of the data."""


def counts(row: Row, kind: str, key: str, part: Part) -> np.ndarray:
    """The counts of the original sentences in a part, shape `(n,)`."""
    return np.array([x[kind][key] for x in row["metrics"]["sources"].values() if part(x)])


def share(row: Row, kind: str, part: Part = bool) -> str:
    """The percentage of right sentences, with its interval if several sentences vary."""
    right, n = (counts(row, kind, key, part) for key in ("right", "sentences"))
    if kind == ORIGINAL:
        return wilson(right.sum(), n.sum()).text()
    found = _of_sources(right, n)
    return found.text() if len(n) > 1 else f"{found.value:.1f}"


def difference(row: Row, other: Row, kind: str) -> str:
    """How many points the share is above that of another row, with its interval."""
    right = counts(row, kind, "right", bool) - counts(other, kind, "right", bool)
    return _of_sources(right, counts(row, kind, "sentences", bool)).text("+.1f")


def _of_sources(right: np.ndarray, n: np.ndarray) -> Interval:
    return resampled(lambda own: 100 * right[own].sum(-1) / n[own].sum(-1), len(n))


def _with(key: str, value: object) -> Part:
    return lambda x: bool(x[key] == value)


def label(row: Row) -> str:
    return f"`{row['bilm']}`" if row["bilm"] else row["settings"]["model"]


def shares_table(rows: Sequence[Row]) -> str:
    """A line for each model, with its shares and how far they are above the published ones."""
    published = next(row for row in rows if row["bilm"] is None)
    others = [row for row in rows if row is not published]
    n = {kind: counts(published, kind, "sentences", bool).sum() for kind in KINDS}
    heads = ["right, %", *(f"{n[kind]} {kind} sentences" for kind in KINDS)]
    heads += [f"{kind}: above the LSTM" for kind in KINDS]
    lines = [[label(row), *(share(row, kind) for kind in KINDS)] for row in (published, *others)]
    lines[0] += [""] * len(KINDS)
    for line, row in zip(lines[1:], others):
        line += [difference(row, published, kind) for kind in KINDS]
    return table(heads, lines)


def parts_table(rows: Sequence[Row]) -> str:
    """A line for each construction and number of attractors, with both kinds of each model."""
    sources = rows[0]["metrics"]["sources"].values()
    parts: dict[str, Part] = {}
    for name in dict.fromkeys(x["construction"] for x in sources):
        parts[name] = _with("construction", name)
    for n in sorted({x["attractors"] for x in sources}):
        parts[f"attractors: {n}"] = _with("attractors", n)
    lines = []
    for name, part in parts.items():
        for kind in KINDS:
            n_sentences = int(counts(rows[0], kind, "sentences", part).sum())
            lines.append([name, kind, n_sentences, *(share(row, kind, part) for row in rows)])
    return table(["", "", "sentences", *map(label, rows)], lines)


def sections(folder: Path) -> dict[str, str]:
    """The sections of the results page by title, if the folder of rows has those of agreement."""
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    return {"Agreement": shares_table(rows), "Agreement by construction": parts_table(rows)}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("file", type=Path, help="English.best_model.tab")
    parser.add_argument("models", nargs="+", metavar="NAME=ARCHIVE")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    named = map(named_archive, arguments.models)
    models = [(name, LanguageModel.from_archive(archive)) for name, archive in named]
    rows = agreement_rows(arguments.file, models)
    save_rows(arguments.results, rows)
    print(f"{shares_table(rows)}\n\n{parts_table(rows)}")


if __name__ == "__main__":
    run("agreement", main)
