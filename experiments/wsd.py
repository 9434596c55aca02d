"""
Word sense disambiguation (WSD) by nearest neighbor (Peters et al. 2018, table 5):

    python -m experiments.wsd semcor.data.xml semeval2007.data.xml index.sense \\
        small=pretrained://small

In the paper, a sense is represented by the average vector of its occurrences in the training data,
and a word gets the sense with the highest cosine among those of its lemma and part of speech. The
rows `occurrence` give it the sense of the single nearest occurrence instead. Ties go to WordNet's
order. Words without a sense in the training data get WordNet's first sense. A phrase is represented
by the average vector of its words.

Each layer, the average of the layers, and a baseline are scored. The baseline is WordNet's first
sense. All words get a sense, so F1 equals accuracy. The 95 % interval of the difference from the
baseline comes from 10,000 bootstrap samples of the words; a difference is bold if its interval
excludes zero. The average of many occurrences is closer to any vector than that of a few,
so that the nearest sense is often the baseline's: `rare` is the accuracy for words for which the
baseline is wrong.

`--hold-out 10` scores every tenth document of the training data too, with the senses of the other
documents. WordNet orders senses by how often they occur in these data, the held-out documents
included, so the order is then that of their frequency in the other documents (or, if that is equal,
of their first occurrence), the baseline is the most frequent sense, and words that the other
documents lack are left out.

`index.sense` is from WordNet 3.0 (Debian: `wordnet-sense-index`). Each model is `NAME=ARCHIVE`,
where ARCHIVE may be anything that `archive_file` accepts. Without a model, only the baseline is
scored.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin import Elmo
from experiments import new_parser, run
from experiments.markdown import table
from experiments.rows import (
    AVERAGE,
    RESULTS,
    Row,
    layer_names,
    named_archive,
    result_row,
    save_rows,
)
from experiments.wsd_reader import Sentence, Target, Word, read_documents, word_of

FILE = RESULTS / "wsd.jsonl"
SENTENCES = 512
"""Number of sentences per batch."""

SAMPLES, SEED = 10_000, 0

TIE = 1e-6
"""
Cosines that differ by less are ties. In the word layer, a form has the same vector in every sense.
"""

FIRST_SENSE, MOST_FREQUENT = "first sense", "most frequent sense"
OCCURRENCE = "occurrence"


class Data(NamedTuple):
    """
    Training and test data: their names, and functions that read the sentences. `baseline` is
    `FIRST_SENSE` or `MOST_FREQUENT`.
    """

    train: str
    dev: str
    baseline: str
    read_train: Callable[[], Iterable[Sentence]]
    read_dev: Callable[[], Iterable[Sentence]]

    @property
    def names(self) -> dict[str, str]:
        """For the settings of a row."""
        return {"train": self.train, "dev": self.dev}


def data_sets(train: Path, dev: Path, hold_out: int | None = None) -> list[Data]:
    """
    The two files and, with `hold_out`, the training file without every `hold_out`-th of its
    documents, and these documents.
    """
    name, dev_name = (file.name.split(".")[0] for file in (train, dev))
    read, read_dev = partial(read_sentences, train), partial(read_sentences, dev)
    found = [Data(name, dev_name, FIRST_SENSE, read, read_dev)]
    if hold_out:
        rest = partial(read, hold_out, False)
        part = partial(_known_targets, partial(read, hold_out, True), rest)
        dev_name = f"{name}, 1 of {hold_out} documents"
        found.append(Data(name, dev_name, MOST_FREQUENT, rest, part))
    return found


def _known_targets(
    read: Callable[[], Iterable[Sentence]], read_train: Callable[[], Iterable[Sentence]]
) -> Iterator[Sentence]:
    """The sentences with only the targets whose words occur in the training data."""
    known = {word_of(s) for _, targets in read_train() for t in targets for s in t.senses}
    for words, targets in read():
        yield words, [t for t in targets if (t.lemma, t.pos) in known]


def read_sentences(
    file: Path, hold_out: int | None = None, held_out: bool = False
) -> Iterator[Sentence]:
    """
    The sentences of a file; with `hold_out`, those of every `hold_out`-th document if `held_out`,
    or else of the others.
    """
    for number, sentence in read_documents(file):
        is_last = hold_out is not None and number % hold_out == hold_out - 1
        if is_last == held_out:
            yield sentence


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


def ordered_senses(data: Data, wordnet: dict[Word, list[str]]) -> dict[Word, list[str]]:
    """
    The senses of each word, of which the first is the baseline's: in WordNet's order, or by their
    frequency and then their first occurrence in the training data.
    """
    if data.baseline == FIRST_SENSE:
        return wordnet
    counts = Counter(s for _, targets in data.read_train() for t in targets for s in t.senses)
    places = {sense: place for place, sense in enumerate(counts)}  # in the order of the text

    def order(sense: str) -> tuple[int, int]:
        return -counts[sense], places.get(sense, len(places))

    return {word: sorted(found, key=order) for word, found in wordnet.items()}


def first_senses(targets: Iterable[Target], ordered: dict[Word, list[str]]) -> list[str | None]:
    return [ordered.get((t.lemma, t.pos), [None])[0] for t in targets]


def sense_vectors(
    elmo: Elmo, sentences: Iterable[Sentence], words: set[Word]
) -> dict[str, np.ndarray]:
    """
    The vectors of the K occurrences of each sense of `words`, shape `(K, L + 2, 2P)`. Sentences
    without these words are skipped.
    """
    found: defaultdict[str, list[np.ndarray]] = defaultdict(list)
    useful = (
        (tokens, known)
        for tokens, targets in sentences
        if (known := [t for t in targets if any(word_of(s) in words for s in t.senses)])
    )
    for target, vectors in target_vectors(elmo, useful):
        for sense in target.senses:
            found[sense].append(vectors)
    return {sense: np.stack(vectors) for sense, vectors in found.items()}


def averages(senses: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The average of each sense's vectors, shape `(1, L + 2, 2P)`."""
    return {
        sense: vectors.mean(axis=0, keepdims=True, dtype=np.float64)
        for sense, vectors in senses.items()
    }


def nearest_senses(
    tests: Sequence[tuple[Target, np.ndarray]],
    senses: dict[str, np.ndarray],
    ordered: dict[Word, list[str]],
) -> list[list[str | None]]:
    """
    Assign each of the `target_vectors` the sense of the nearest vector, in each layer and their
    average. Of equally near ones, the first in order is taken.
    """
    rank = {sense: k for found in ordered.values() for k, sense in enumerate(found)}
    candidates: defaultdict[Word, list[str]] = defaultdict(list)
    for sense in sorted(senses, key=lambda sense: rank.get(sense, len(rank))):
        candidates[word_of(sense)].append(sense)
    predicted: list[list[str | None]] = [[] for _ in tests[0][1]]
    for target, vectors in tests:
        known = candidates.get((target.lemma, target.pos), [])
        nearest = first_senses([target], ordered) * len(vectors)
        if known:
            cosines = np.stack([_cosines(senses[sense], vectors) for sense in known])
            # argmax returns the first true element.
            nearest = [known[k] for k in (cosines > cosines.max(axis=0) - TIE).argmax(axis=0)]
        for layer, found_sense in zip(predicted, nearest):
            layer.append(found_sense)
    return predicted


def _cosines(others: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The highest cosine with one of the K `others` in each layer, shape `(L + 2,)`."""
    products = np.einsum("kld,ld->kl", others, vectors)
    norms = np.sqrt(np.einsum("kld,kld->kl", others, others)) * np.linalg.norm(vectors, axis=-1)
    return (products / norms).max(axis=0)


def score(
    predicted: Sequence[str | None], targets: Sequence[Target], ordered: dict[Word, list[str]]
) -> dict[str, Any]:
    """
    The metrics of predicted senses in percent: `f1`; `difference` from the baseline; their
    intervals; and `rare`, the accuracy for targets for which the baseline is wrong.
    """
    baseline = zip(first_senses(targets, ordered), targets)
    is_known = np.array([sense in t.senses for sense, t in baseline])
    right = np.array([sense in t.senses for sense, t in zip(predicted, targets)])
    rare = 100 * float(right[~is_known].mean()) if not is_known.all() else None
    return {**bootstrap(right, is_known), "rare": rare, "words": len(targets)}


def bootstrap(right: np.ndarray, baseline: np.ndarray) -> dict[str, Any]:
    """
    F1 and its difference from the baseline, in percent, and the difference's 95 % interval.
    Sampling words samples the numbers of those that both, one or neither of the two have right.
    """
    n = len(right)
    outcomes = [right & baseline, right & ~baseline, ~right & baseline, ~right & ~baseline]
    shares = np.mean(outcomes, axis=1)
    samples = np.random.default_rng(SEED).multinomial(n, shares, size=SAMPLES) / n
    signs = [0, 1, -1, 0]
    return {
        "f1": 100 * float(np.mean(right)),
        "difference": 100 * float(shares @ signs),
        "difference_interval": np.percentile(100 * samples @ signs, [2.5, 97.5]).tolist(),
    }


def wsd_rows(name: str, elmo: Elmo, data: Data, wordnet: dict[Word, list[str]]) -> list[Row]:
    """The rows of a biLM, one per layer, for each method."""
    started = time.process_time()
    tests = list(target_vectors(elmo, data.read_dev()))
    targets = [target for target, _ in tests]
    words = {(target.lemma, target.pos) for target in targets}
    senses = sense_vectors(elmo, data.read_train(), words)
    ordered = ordered_senses(data, wordnet)
    rows = []
    for way, known in ((AVERAGE, averages(senses)), (OCCURRENCE, senses)):
        predicted = nearest_senses(tests, known, ordered)
        for layer, found in zip(layer_names(elmo.n_layers), predicted):
            settings = {
                "layer": layer,
                "initial_state": elmo.initial_state,
                "precision": elmo.bilm.precision,
                **data.names,
                "nearest": way,
            }
            metrics = score(found, targets, ordered)
            rows.append(result_row(name, elmo, settings, metrics, started))
    return rows


def baseline_row(data: Data, wordnet: dict[Word, list[str]]) -> Row:
    started = time.process_time()
    ordered = ordered_senses(data, wordnet)
    targets = [target for _, found in data.read_dev() for target in found]
    metrics = score(first_senses(targets, ordered), targets, ordered)
    return result_row(None, None, {"layer": data.baseline, **data.names}, metrics, started)


def wsd_table(rows: Sequence[Row]) -> str:
    """Rows as Markdown: a line for each layer, with both methods."""
    columns = ["data", "biLM", "layer"]
    for way in (AVERAGE, OCCURRENCE):
        columns += [f"{way}: F1", "above the baseline", "rare"]
    lines: dict[tuple[str, str, str], list[object]] = {}
    for row in rows:
        settings, metrics = row["settings"], row["metrics"]
        key = settings["dev"], row["bilm"] or "none", settings["layer"]
        line = lines.setdefault(key, [""] * 6)
        start = 3 if settings.get("nearest") == OCCURRENCE else 0
        line[start] = metrics["f1"]
        if row["bilm"]:
            line[start + 1 : start + 3] = [_difference(metrics), metrics["rare"]]
    return table(columns, [[*key, *line] for key, line in lines.items()])


def _difference(metrics: dict[str, Any]) -> str:
    """The difference from the baseline, in bold if its interval excludes zero."""
    low, high = metrics["difference_interval"]
    text = f"{metrics['difference']:+.1f}"
    text = f"**{text}**" if low > 0 or high < 0 else text
    return f"{text} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("train", type=Path, help="semcor.data.xml; its keys are next to it")
    parser.add_argument("dev", type=Path, help="semeval2007.data.xml")
    parser.add_argument("index", type=Path, help="index.sense of WordNet")
    parser.add_argument("models", nargs="*", metavar="NAME=ARCHIVE")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument(
        "--hold-out", type=int, metavar="N", help="also score 1 of N documents of TRAIN"
    )
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    wordnet = wordnet_senses(arguments.index)
    sets = data_sets(arguments.train, arguments.dev, arguments.hold_out)
    rows = [baseline_row(data, wordnet) for data in sets]
    for model in arguments.models:
        name, archive_file = named_archive(model)
        elmo = Elmo.from_archive(archive_file, precision=arguments.precision)
        for data in sets:
            rows += wsd_rows(name, elmo, data, wordnet)
    save_rows(arguments.results, rows)
    print(wsd_table(rows))


if __name__ == "__main__":
    run("wsd", main)
