"""
Reading times: what surprisal explains of the self-paced reading times of the Natural Stories corpus
(Futrell et al. 2021).

    python -m experiments.reading_times natural_stories.tsv small=pretrained://small

The file has a row for each word of ten stories: `story`, `position`, `word`, `tokens` (the word as
tokens of the Penn Treebank), `reading_time` (the geometric mean over readers, in ms), `gpt3` (its
surprisal in bits), and the counts `frequency`, `trigram` and `trigram_context` (of the first two
words of the trigram) in Google's n-grams. The corpus' authors publish all of them.

The logarithm of the reading time is regressed by least squares on the length of the word in
characters, the logarithm of its frequency, both of the two words before it, its position with its
square and its logarithm, and a constant for each story; then also on the surprisal of the word and
of the two before. A word's surprisal is the sum over its tokens. The trigram's falls back on the
frequency if its count is zero (Brants et al. 2007).

The gain is that of the log likelihood for each word, in thousandths of nats. *Held out* is its gain
in each story with the coefficients of the other nine, and with the story's own constant. There are
two sets of words: all for which the file has every value; and of these, those whose tokens, with
those of the two words before, are in the softmax of every biLM. Only aggregates by story are saved.

Each model is `NAME=ARCHIVE`, where ARCHIVE may be anything that `archive_file` accepts, if it has
a softmax. A sentence ends at a period, an exclamation mark or a question mark, or with the story.
A model reads each sentence from the `warm` state (*sentence*), or only the first of a story and on
from the sentence before in the others (*story*).
"""

import csv
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from elmo_plugin import LanguageModel
from experiments import new_parser, run
from experiments.intervals import Interval, resampled
from experiments.markdown import table
from experiments.report.pictures import COLORS, save
from experiments.rows import RESULTS, Row, known_rows, named_archive, result_row, save_rows

FILE = RESULTS / "reading_times.jsonl"
PENALTY = 0.4
"""Of Brants et al. (2007), for each step to a shorter n-gram."""
ALL, KNOWN = "all", "known"
NONE, TRIGRAMS, GPT3 = "none", "Google trigrams", "GPT-3"
CONTEXTS = ("sentence", "story")


class Words(NamedTuple):
    """Columns of the file, each with a value for each word, NaN if it is missing."""

    story: np.ndarray
    tokens: list[list[str]]
    length: np.ndarray
    position: np.ndarray
    log_time: np.ndarray
    log_frequency: np.ndarray
    trigrams: np.ndarray
    gpt3: np.ndarray


def read_words(file: Path) -> Words:
    """The words of a file. Surprisal is in bits."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name] or "nan") for row in rows])

    frequency = column("frequency")
    return Words(
        np.array([row["story"] for row in rows]),
        [row["tokens"].split() for row in rows],
        np.array([float(len(row["word"])) for row in rows]),
        column("position"),
        np.log(column("reading_time")),
        np.log(frequency + 1),
        trigram_surprisal(column("trigram"), column("trigram_context"), frequency),
        column("gpt3"),
    )


def trigram_surprisal(count: np.ndarray, context: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """In bits; NaN if the count is missing. A word's frequency counts in the text's own words."""
    total = sum({x for x in frequency if x > 0})  # different words have different frequencies
    backed_off = PENALTY * np.maximum(frequency, 1) / total
    with np.errstate(invalid="ignore"):
        p = np.where(count > 0, count / np.maximum(context, 1), backed_off)
    return np.where(np.isnan(count), np.nan, -np.log2(p))


def sentences(words: Words) -> Iterator[range]:
    """The places of the words of each sentence."""
    start = 0
    for k, tokens in enumerate(words.tokens):
        ends_story = words.story[k] != words.story[min(k + 1, len(words.story) - 1)]
        if {".", "!", "?"} & set(tokens) or ends_story or k + 1 == len(words.tokens):
            yield range(start, k + 1)
            start = k + 1


def surprisals(model: LanguageModel, words: Words, context: str) -> dict[str, np.ndarray]:
    """
    The surprisal of each word by direction, in bits, and `known`, whether the softmax has all of
    its tokens. `context`: what the model has read of a story, of `CONTEXTS`.
    """
    parts = list(sentences(words))
    documents = [words.story[part[0]] for part in parts] if context == "story" else None
    lines = [[token for k in part for token in words.tokens[k]] for part in parts]
    scores = model.score(lines, documents=documents)
    found: dict[str, list[Any]] = {"forward": [], "backward": [], KNOWN: []}
    for part, x in zip(parts, scores):
        ends = np.cumsum([len(words.tokens[k]) for k in part])[:-1]
        for name, values in (("forward", x.forward[:-1]), ("backward", x.backward[1:])):
            found[name] += [-some.sum() for some in np.split(values, ends)]
        found[KNOWN] += [some.all() for some in np.split(x.in_vocabulary, ends)]
    return {name: np.array(values) for name, values in found.items()}


def with_previous(x: np.ndarray, story: np.ndarray) -> list[np.ndarray]:
    """The values of each word and of the two before it, NaN at the beginning of a story."""
    columns = [x.astype(float)]
    for k in (1, 2):
        before = np.full(len(x), np.nan)
        before[k:] = np.where(story[k:] == story[:-k], x[:-k], np.nan)
        columns.append(before)
    return columns


class Regression:
    """
    The regression of the reading times of some words, without and with a surprisal.

    # Parameters

    words : `Words`
    used : `np.ndarray`
        Whether a word is one of them.
    """

    def __init__(self, words: Words, used: np.ndarray) -> None:
        story = words.story
        self._story, self._used = story, used
        self._base = [
            *with_previous(words.length, story),
            *with_previous(words.log_frequency, story),
            words.position,
            words.position**2,
            np.log(words.position),
        ]
        self.stories = {name: story[used] == name for name in dict.fromkeys(story[used].tolist())}
        self._y = self._centered(words.log_time[used])
        self._variance = words.log_time[used].var()
        self._without = self._likelihoods(np.stack(self._base, axis=1)[used])

    def metrics(self, surprisal: np.ndarray | None) -> Row:
        """R², and the gain in the log likelihood of a word, of all words and held out by story."""
        more = [] if surprisal is None else with_previous(surprisal, self._story)
        x = np.stack([*self._base, *more], axis=1)[self._used]
        gains = [now - before for now, before in zip(self._likelihoods(x), self._without)]
        residuals = self._y - self._predicted(x, np.ones(len(x), dtype=bool))
        return {
            "words": len(x),
            "r2": float(1 - (residuals**2).mean() / self._variance),
            "gain": float(gains[0].mean()),
            "stories": {
                name: {"words": int(own.sum()), "gain": float(gains[1][own].mean())}
                for name, own in self.stories.items()
            },
        }

    def _centered(self, x: np.ndarray) -> np.ndarray:
        """Values without their mean in a story, which is the same as a constant for each story."""
        x = x.copy()
        for own in self.stories.values():
            x[own] -= x[own].mean(axis=0)
        return x

    def _predicted(self, x: np.ndarray, train: np.ndarray) -> np.ndarray:
        x = self._centered(x)
        x /= np.abs(x).max(axis=0)  # only for the condition of the matrix
        return x @ np.linalg.lstsq(x[train], self._y[train], rcond=None)[0]

    def _likelihoods(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log likelihood of each word by the regression of all, and by that of others."""
        every = np.ones(len(x), dtype=bool)
        held_out = np.empty(len(x))
        for own in self.stories.values():
            held_out[own] = self._log_likelihood(x, ~own)[own]
        return self._log_likelihood(x, every), held_out

    def _log_likelihood(self, x: np.ndarray, train: np.ndarray) -> np.ndarray:
        residuals = self._y - self._predicted(x, train)
        variance = (residuals[train] ** 2).mean()
        return -(np.log(2 * np.pi * variance) + residuals**2 / variance) / 2


def complete(words: Words) -> np.ndarray:
    """Whether a word and the two before it have every value of the file."""
    columns = (words.log_frequency, words.trigrams, words.gpt3)
    values = [x for column in columns for x in with_previous(column, words.story)]
    return np.isfinite(np.stack([words.log_time, *values])).all(axis=0)


def time_rows(file: Path, models: Sequence[tuple[str, LanguageModel]]) -> list[Row]:
    """The rows of the baselines and of each model, for both sets of words."""
    words = read_words(file)
    started = time.process_time()
    found: list[tuple[str | None, Any, Row, np.ndarray | None, float]] = [
        (None, None, {"surprisal": name}, values, started)
        for name, values in ((NONE, None), (TRIGRAMS, words.trigrams), (GPT3, words.gpt3))
    ]
    known = np.ones(len(words.length), dtype=bool)
    for name, model in models:
        for context in CONTEXTS:
            started = time.process_time()
            values = surprisals(model, words, context)
            known &= values.pop(KNOWN)
            for direction, x in values.items():
                settings = {"surprisal": direction, "context": context}
                found.append((name, model, settings, x, started))
    used = complete(words)
    known = used & (np.nan_to_num(with_previous(known, words.story)) == 1).all(axis=0)
    rows = []
    for label, part in ((ALL, used), (KNOWN, known)):
        regression = Regression(words, part)
        for bilm, own, settings, surprisal, started in found:
            metrics = regression.metrics(surprisal)
            rows.append(result_row(bilm, own, settings | {"words": label}, metrics, started))
    return rows


def held_out(row: Row, other: Row | None = None) -> Interval:
    """
    The gain of held-out stories in thousandths of nats, or how much it is above that of another row
    of these words. The interval comes from resampling the stories.
    """
    stories = row["metrics"]["stories"]
    n = np.array([story["words"] for story in stories.values()])
    gains = np.array([story["gain"] for story in stories.values()])
    if other is not None:
        gains -= [other["metrics"]["stories"][name]["gain"] for name in stories]
    gains = 1000 * n * gains
    return resampled(lambda own: gains[own].sum(axis=-1) / n[own].sum(axis=-1), len(n))


def gain_text(row: Row, other: Row | None = None) -> str:
    """`held_out` as text."""
    return held_out(row, other).text("+.1f")


def label(row: Row) -> str:
    kind, context = row["settings"]["surprisal"], row["settings"].get("context")
    return f"`{row['bilm']}`, {kind}, {context}" if row["bilm"] else kind


def by_words(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each set of words."""
    names = dict.fromkeys(row["settings"]["words"] for row in rows)
    return {name: [row for row in rows if row["settings"]["words"] == name] for name in names}


def times_table(rows: Sequence[Row]) -> str:
    """A table for each set of words, with a line for each surprisal."""
    parts = []
    for name, of_words in by_words(rows).items():
        peers = {row["settings"]["surprisal"]: row for row in of_words if row["bilm"] is None}
        lines: list[list[object]] = []
        for row in of_words:
            metrics, is_none = row["metrics"], row is peers[NONE]
            cells = [f"{metrics['r2']:.4f}", f"{1000 * metrics['gain']:.1f}"]
            cells.append("" if is_none else gain_text(row))
            for peer in (TRIGRAMS, GPT3):
                has_difference = row["bilm"] is not None
                cells.append(gain_text(row, peers[peer]) if has_difference else "")
            lines.append([label(row), *cells])
        heads = [f"{title(name)}: {of_words[0]['metrics']['words']:,}; surprisal by", "R²", "gain"]
        heads += ["held out", f"above {TRIGRAMS}", f"above {GPT3}"]
        parts.append(table(heads, lines))
    return "\n\n".join(parts)


def title(words: str) -> str:
    return {ALL: "all words", KNOWN: "words in the softmax"}[words]


def sections(folder: Path, pictures: Path) -> dict[str, str]:
    """
    The sections of the results page by title, if the folder of rows has those of reading times. The
    picture is written into the other folder.
    """
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    about = "What surprisal adds to the fit of reading times"
    save(picture(rows), pictures / "reading_times.svg", about, described(rows))
    return {
        "Reading times": f"![{about}](results/reading_times.svg)",
        "Reading times by surprisal": times_table(rows),
    }


def drawn(rows: Sequence[Row]) -> dict[str, Row]:
    """
    The rows of one set of words that the picture shows, by their label: the surprisal of others,
    and the forward surprisal of each biLM that has read the story up to the word, as GPT-3 has.
    """
    found = {}
    for row in rows:
        settings, bilm = row["settings"], row["bilm"]
        if bilm and (settings["surprisal"], settings["context"]) == ("forward", "story"):
            found[f"{bilm}, forward"] = row
        elif not bilm and settings["surprisal"] != NONE:
            found[settings["surprisal"]] = row
    return found


def described(rows: Sequence[Row]) -> str:
    """The gains that the picture shows, as words."""
    return "; ".join(
        f"{title(words)}: "
        + ", ".join(f"{label} {gain_text(row)}" for label, row in drawn(of_words).items())
        for words, of_words in by_words(rows).items()
    )


def picture(rows: Sequence[Row]) -> Figure:
    """The gains of held-out stories with their intervals, in a panel for each set of words."""
    parts = by_words(rows)
    n_bars = max(len(drawn(of_words)) for of_words in parts.values())
    figure = Figure(figsize=(7, 1.3 + 0.35 * n_bars), layout="constrained")
    panels = figure.subplots(1, len(parts), sharex=True, sharey=True, squeeze=False)[0]
    for panel, (name, of_words) in zip(panels, parts.items()):
        shown = drawn(of_words)
        gains = [held_out(row) for row in shown.values()]
        bars = panel.barh(
            list(shown),
            [gain.value for gain in gains],
            xerr=np.array([(gain.value - gain.low, gain.high - gain.value) for gain in gains]).T,
            color=[COLORS[2 if row["bilm"] else 0] for row in shown.values()],
            capsize=3,
        )
        panel.bar_label(bars, fmt="%.1f", padding=4, size=8)
        panel.axvline(0, color="black", linewidth=0.8)
        n_words = of_words[0]["metrics"]["words"]
        panel.set_title(f"{title(name)} ({n_words:,})", fontsize="medium")
    panels[0].set_xlim(right=1.25 * panels[0].get_xlim()[1])  # room for the labels
    panels[0].invert_yaxis()
    figure.supxlabel(
        "gain in log likelihood in held-out stories, thousandths of nats per word\n"
        "Whiskers: 95 % intervals by resampling the stories.",
        fontsize="medium",
    )
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("file", type=Path, help="natural_stories.tsv")
    parser.add_argument("models", nargs="+", metavar="NAME=ARCHIVE")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    named = map(named_archive, arguments.models)
    models = [(name, LanguageModel.from_archive(archive)) for name, archive in named]
    rows = time_rows(arguments.file, models)
    save_rows(arguments.results, rows)
    print(times_table(rows))


if __name__ == "__main__":
    run("reading_times", main)
