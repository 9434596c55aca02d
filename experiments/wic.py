"""
Word in context (WiC; Pilehvar and Camacho-Collados 2019): has a word the same meaning in two
sentences?

    python -m experiments.wic FOLDER small=pretrained://small

The folder has `train`, `dev` and `test` with `.data.txt`, and `train` and `dev` with `.gold.txt`.
The vectors of the word in the two sentences are compared in each layer and in the average of all
layers, by two classifiers of the training data: a *threshold* for their cosine, and a *logistic
regression* that reads the absolute difference and the product of each dimension. Both are scored on
the development data, of which half the pairs have the same meaning. Their predictions for the test
data, whose labels are published elsewhere, are written next to the rows, in `wic_test.jsonl`, as a
letter `T` or `F` for each pair. No words and sentences are saved.

Each model is `NAME=ARCHIVE`, where ARCHIVE may be anything that `archive_file` accepts, or the
folder of a transformer (`experiments/transformer.py`).
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmo_plugin import Elmo
from experiments import new_parser, run
from experiments.intervals import wilson
from experiments.markdown import table
from experiments.rows import RESULTS, Row, named_archive, result_row, save_rows
from experiments.transformer import Transformer, load_vectors, names_of_layers

FILE = RESULTS / "wic.jsonl"
TEST = "wic_test.jsonl"
THRESHOLD, REGRESSION = "threshold", "logistic regression"
SENTENCES = 1024
"""Sentences whose vectors are in memory at a time."""

SPLITS = ("train", "dev", "test")


class Pairs(NamedTuple):
    """
    sentences : `list[list[str]]`
        The first sentences, then the second ones, as tokens.
    places : `list[int]`
        The word in each sentence.
    labels : `np.ndarray | None`
        Whether the meaning is the same, if it is known.
    """

    sentences: list[list[str]]
    places: list[int]
    labels: np.ndarray | None


def read_pairs(folder: Path, split: str) -> Pairs:
    lines = (folder / f"{split}.data.txt").read_text("utf-8").splitlines()
    _, _, places, *sentences = zip(*(line.split("\t") for line in lines))
    both = zip(*(map(int, some.split("-")) for some in places))
    gold = folder / f"{split}.gold.txt"
    labels = np.array(gold.read_text().split()) == "T" if gold.exists() else None
    return Pairs(
        [s.split() for some in sentences for s in some], [*next(both), *next(both)], labels
    )


def pair_vectors(model: Elmo | Transformer, pairs: Pairs) -> np.ndarray:
    """The vectors of the words in all layers and their average, shape `(L + 2, 2, N, D)`."""
    found: list[np.ndarray] = []
    for k in range(0, len(pairs.places), SENTENCES):
        layers = model.embed(pairs.sentences[k : k + SENTENCES], layer="all")
        found += (own[:, place] for own, place in zip(layers, pairs.places[k:]))
    vectors = np.stack(found, axis=1)
    vectors = np.concatenate([vectors, vectors.mean(axis=0, keepdims=True)])
    return vectors.reshape(len(vectors), 2, -1, vectors.shape[-1])


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosines of pairs of vectors, shape `(2, N, D)`."""
    a, b = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (a * b).sum(axis=-1)


def best_threshold(values: np.ndarray, labels: np.ndarray) -> float:
    """
    The threshold with the highest accuracy, if values of at least it are true; the lowest of equal
    ones.
    """
    order = np.argsort(values, kind="stable")
    values, labels = values[order], labels[order]
    # Before each value, those below it are false.
    right = np.concatenate([[0], np.cumsum(~labels)]) + np.concatenate(
        [np.cumsum(labels[::-1])[::-1], [0]]
    )
    candidates = np.concatenate([values, [np.inf]])
    is_first = np.concatenate([[True], np.diff(candidates) > 0])  # equal values are not parted
    return float(candidates[np.argmax(np.where(is_first, right, -1))])


def features(vectors: np.ndarray) -> np.ndarray:
    a, b = vectors
    return np.concatenate([abs(a - b), a * b], axis=-1)


def predictions(
    train: np.ndarray, labels: np.ndarray, others: Sequence[np.ndarray]
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """What each classifier says of other pairs; all are of shape `(2, N, D)`."""
    threshold = best_threshold(cosines(train), labels)
    yield THRESHOLD, [cosines(x) >= threshold for x in others]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features(train), labels)
    yield REGRESSION, [classifier.predict(features(x)) for x in others]


def wic_rows(name: str, archive_file: str, folder: Path) -> tuple[list[Row], list[Row]]:
    """The rows of a model, by layer and classifier, and its predictions for the test data."""
    started = time.process_time()
    model = load_vectors(archive_file)
    pairs = [read_pairs(folder, split) for split in SPLITS]
    train, dev, _ = (x.labels for x in pairs)
    assert train is not None and dev is not None
    rows, tests = [], []
    vectors = (pair_vectors(model, some) for some in pairs)
    for layer, (a, b, c) in zip(names_of_layers(model), zip(*vectors)):
        for classifier, (own, of_dev, of_test) in predictions(a, train, (a, b, c)):
            settings = {"layer": layer, "classifier": classifier}
            metrics = {
                "accuracy": 100 * float(np.mean(of_dev == dev)),
                "pairs": len(dev),
                "train_accuracy": 100 * float(np.mean(own == train)),
            }
            rows.append(result_row(name, model, settings, metrics, started))
            letters = "".join(np.where(of_test, "T", "F"))
            tests.append({"bilm": name, "settings": settings, "predictions": letters})
    return rows, tests


def wic_table(rows: Sequence[Row]) -> str:
    """A line for each model and layer, and the accuracy of both classifiers."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        metrics = row["metrics"]
        n_right = metrics["accuracy"] / 100 * metrics["pairs"]
        own = lines.setdefault((row["bilm"], row["settings"]["layer"]), {})
        own[row["settings"]["classifier"]] = wilson(n_right, metrics["pairs"]).text()
    heads = ["vectors", "layer", THRESHOLD, REGRESSION]
    cells = [[f"`{bilm}`", layer, *found.values()] for (bilm, layer), found in lines.items()]
    return table(heads, cells)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=ARCHIVE")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    rows, tests = [], []
    for model in arguments.models:
        own, of_test = wic_rows(*named_archive(model), arguments.folder)
        rows += own
        tests += of_test
    save_rows(arguments.results, rows)
    save_rows(arguments.results.with_name(TEST), tests)
    print(wic_table(rows))


if __name__ == "__main__":
    run("wic", main)
