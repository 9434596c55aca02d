"""
Word sense disambiguation (WSD) by nearest neighbor (Peters et al. 2018, table 5):

    python -m experiments.wsd semcor.data.xml semeval2007.data.xml index.sense \\
        small=pretrained://small

A sense is represented by the average vector of its occurrences in the training data. A word gets
the sense with the highest cosine among those of its lemma and part of speech; ties go to WordNet's
order. Words without a sense in the training data get WordNet's first sense. A phrase is represented
by the average vector of its words.

Each layer, the average of the layers, and the first-sense baseline are scored. All words get a
sense, so F1 equals accuracy. The 95 % intervals of F1 and of the difference from the baseline come
from the same 10,000 bootstrap samples of the words. The first sense is often right, and the average
of many occurrences is closer to any vector than that of a few. Two columns show this effect: `rare`
is the accuracy for words whose first sense is wrong, and the last column is the share of words that
get their first sense.

`index.sense` is from WordNet 3.0 (Debian: `wordnet-sense-index`). Each model is `NAME=ARCHIVE`,
where ARCHIVE may be anything that `archive_file` accepts. Without a model, only the baseline is
scored.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin import Elmo
from experiments import run
from experiments.markdown import table
from experiments.rows import (
    RESULTS,
    Row,
    bilm_digest,
    layer_names,
    named_archive,
    result_row,
    save_rows,
)
from experiments.wsd_reader import Target, WsdReader

FILE = RESULTS / "wsd.jsonl"
SENTENCES = 512
"""Number of sentences per batch."""

SAMPLES, SEED = 10_000, 0

TIE = 1e-6
"""
Cosines that differ by less are ties. In the word layer, a form has the same vector in every sense.
"""

FIRST_SENSE = "first sense"
POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
"""POS tags by the number in a sense key."""

Word = tuple[str, str]
"""A lemma and its part of speech."""

Sentence = tuple[list[str], list[Target]]


def read_sentences(file: Path) -> Iterator[Sentence]:
    for instance in WsdReader().read(str(file)):
        metadata = instance["metadata"].metadata  # type: ignore[attr-defined]
        yield metadata["words"], metadata["targets"]


def word_of(sense: str) -> Word:
    """The lemma and the part of speech of a sense key."""
    lemma, _, rest = sense.rpartition("%")
    return lemma, POS[rest[0]]


def wordnet_senses(index: Path) -> dict[Word, list[str]]:
    """
    The senses of each word in WordNet's order. A line of `index.sense` contains a sense key, an
    offset, the number of the sense and a frequency.
    """
    numbered: defaultdict[Word, list[tuple[int, str]]] = defaultdict(list)
    for line in index.read_text("utf-8").splitlines():
        sense, _, number, _ = line.split()
        numbered[word_of(sense)].append((int(number), sense))
    return {word: [sense for _, sense in sorted(found)] for word, found in numbered.items()}


def first_senses(wordnet: dict[Word, list[str]]) -> dict[Word, str]:
    """WordNet's first sense of each word."""
    return {word: senses[0] for word, senses in wordnet.items()}


def target_vectors(
    elmo: Elmo, sentences: Iterable[Sentence]
) -> Iterator[tuple[Target, np.ndarray]]:
    """The targets with the vectors of all layers and their average, shape `(L + 2, 2P)`."""
    iterator = iter(sentences)
    while part := list(islice(iterator, SENTENCES)):
        vectors = elmo.embed([words for words, _ in part], layer="all")
        for (_, targets), found in zip(part, vectors):
            for target in targets:
                layers = found[:, target.start : target.end].mean(axis=1)
                yield target, np.concatenate([layers, layers.mean(axis=0, keepdims=True)])


def sense_vectors(
    elmo: Elmo, sentences: Iterable[Sentence], words: set[Word]
) -> dict[str, np.ndarray]:
    """
    The average vectors of the senses of `words`, each of shape `(L + 2, 2P)`. Sentences without
    these words are skipped.
    """
    sums: dict[str, np.ndarray] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    useful = (
        (tokens, found)
        for tokens, targets in sentences
        if (found := [t for t in targets if any(word_of(s) in words for s in t.senses)])
    )
    for target, vectors in target_vectors(elmo, useful):
        for sense in target.senses:
            sums[sense] = sums.get(sense, 0) + vectors.astype(np.float64)
            counts[sense] += 1
    return {sense: total / counts[sense] for sense, total in sums.items()}


class Predictions(NamedTuple):
    """
    senses : `list[list[str | None]]`
        Sense of each target, in each layer and their average.
    unseen : `int`
        Number of targets that got the first sense because their word is not in the training data.
    """

    senses: list[list[str | None]]
    unseen: int


def nearest_senses(
    elmo: Elmo,
    sentences: Sequence[Sentence],
    senses: dict[str, np.ndarray],
    wordnet: dict[Word, list[str]],
) -> Predictions:
    """Assign each target the nearest sense in each layer."""
    rank = {sense: k for found in wordnet.values() for k, sense in enumerate(found)}
    candidates: defaultdict[Word, list[str]] = defaultdict(list)
    for sense in sorted(senses, key=lambda sense: rank.get(sense, len(rank))):
        candidates[word_of(sense)].append(sense)
    first = first_senses(wordnet)
    predicted: list[list[str | None]] = [[] for _ in range(elmo.n_layers + 1)]
    unseen = 0
    for target, vectors in target_vectors(elmo, sentences):
        word = target.lemma, target.pos
        known = candidates.get(word, [])
        if not known:
            unseen += 1
            nearest: list[str | None] = [first.get(word)] * len(vectors)
        else:
            others = np.stack([senses[sense] for sense in known])  # (K, L + 2, 2P)
            products = (others * vectors).sum(axis=-1)
            norms = np.linalg.norm(others, axis=-1) * np.linalg.norm(vectors, axis=-1)
            cosines = products / norms
            # argmax returns the first true element.
            nearest = [known[k] for k in (cosines > cosines.max(axis=0) - TIE).argmax(axis=0)]
        for layer, found_sense in zip(predicted, nearest):
            layer.append(found_sense)
    return Predictions(predicted, unseen)


def score(
    predicted: Sequence[str | None], targets: Sequence[Target], first: dict[Word, str]
) -> dict[str, Any]:
    """
    The metrics of predicted senses in percent: `f1`; `difference` from the first-sense baseline;
    their intervals; `rare`, the accuracy for targets whose first sense is wrong; and `first_sense`,
    the share of targets that get their first sense.
    """
    baseline = np.array([first.get((t.lemma, t.pos)) in t.senses for t in targets])
    right = np.array([sense in t.senses for sense, t in zip(predicted, targets)])
    is_first = [sense == first.get((t.lemma, t.pos)) for sense, t in zip(predicted, targets)]
    rare = 100 * float(right[~baseline].mean()) if not baseline.all() else None
    return {
        **bootstrap(right, baseline),
        "rare": rare,
        "first_sense": 100 * float(np.mean(is_first)),
        "words": len(targets),
    }


def bootstrap(right: np.ndarray, baseline: np.ndarray) -> dict[str, Any]:
    """F1 and its difference from the baseline, in percent, each with its 95 % interval."""
    samples = np.random.default_rng(SEED).integers(len(right), size=(SAMPLES, len(right)))
    metrics: dict[str, Any] = {}
    for name, x in (("f1", right), ("difference", right.astype(int) - baseline)):
        metrics[name] = 100 * float(np.mean(x))
        interval = np.percentile(100 * x[samples].mean(axis=1), [2.5, 97.5])
        metrics[f"{name}_interval"] = interval.tolist()
    return metrics


def wsd_rows(
    name: str, elmo: Elmo, precision: str, train: Path, dev: Path, wordnet: dict[Word, list[str]]
) -> list[Row]:
    """The rows of a biLM with one precision, one per layer."""
    started = time.process_time()
    sentences = list(read_sentences(dev))
    targets = [target for _, found in sentences for target in found]
    words = {(target.lemma, target.pos) for target in targets}
    senses = sense_vectors(elmo, read_sentences(train), words)
    predicted, unseen = nearest_senses(elmo, sentences, senses, wordnet)
    seconds = round(time.process_time() - started, 1)
    first = first_senses(wordnet)
    rows = []
    for layer, found in zip(layer_names(elmo.n_layers), predicted):
        settings = {
            "layer": layer,
            "initial_state": elmo.layers.initial_state,
            "precision": precision,
            **_data(train, dev),
        }
        metrics = {**score(found, targets, first), "unseen": unseen}
        rows.append(result_row(name, bilm_digest(elmo), settings, metrics, seconds))
    return rows


def first_sense_row(train: Path, dev: Path, first: dict[Word, str]) -> Row:
    """The row of the baseline."""
    started = time.process_time()
    targets = [target for _, found in read_sentences(dev) for target in found]
    metrics = score([first.get((t.lemma, t.pos)) for t in targets], targets, first)
    seconds = round(time.process_time() - started, 1)
    return result_row(None, None, {"layer": FIRST_SENSE, **_data(train, dev)}, metrics, seconds)


def _data(train: Path, dev: Path) -> dict[str, str]:
    return {"train": train.name.split(".")[0], "dev": dev.name.split(".")[0]}


def wsd_table(rows: Sequence[Row]) -> str:
    """Rows as Markdown."""
    columns = ["biLM", "layer", "F1", "95 %", "above first sense", "95 %", "rare", "first sense"]
    lines = []
    for row in rows:
        metrics = row["metrics"]
        lines.append(
            [
                row["bilm"] or "none",
                row["settings"]["layer"],
                metrics["f1"],
                _interval(metrics["f1_interval"]),
                f"{metrics['difference']:+.1f}",
                _interval(metrics["difference_interval"], "+"),
                metrics["rare"],
                metrics["first_sense"],
            ]
        )
    return table(columns, lines)


def _interval(bounds: Sequence[float], sign: str = "") -> str:
    return " to ".join(f"{bound:{sign}.1f}" for bound in bounds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="semcor.data.xml; its keys are next to it")
    parser.add_argument("dev", type=Path, help="semeval2007.data.xml")
    parser.add_argument("index", type=Path, help="index.sense of WordNet")
    parser.add_argument("models", nargs="*", metavar="NAME=ARCHIVE")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    wordnet = wordnet_senses(arguments.index)
    rows = [first_sense_row(arguments.train, arguments.dev, first_senses(wordnet))]
    for model in arguments.models:
        name, archive_file = named_archive(model)
        elmo = Elmo.from_archive(archive_file, precision=arguments.precision)
        rows += wsd_rows(name, elmo, arguments.precision, arguments.train, arguments.dev, wordnet)
    save_rows(arguments.results, rows)
    print(wsd_table(rows))


if __name__ == "__main__":
    run("wsd", main)
