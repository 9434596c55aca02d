"""Word in context, with invented pairs and `tiny`."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.metrics.pairwise import paired_cosine_distances

from elmo_plugin import Elmo
from experiments import wic

LINES = """\
bank\tN\t4-1\tHe sat by the bank .\tA bank lends .
dog\tN\t1-0\tThe dog barks\tdogs bark .
run\tV\t1-2\tThey run fast .\tWe always run .
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in wic.SPLITS:
        (tmp_path / f"{split}.data.txt").write_text(4 * LINES)
        if split != "test":
            (tmp_path / f"{split}.gold.txt").write_text(4 * "F\nT\nT\n")
    return tmp_path


def test_vectors_of_pairs(folder: Path) -> None:
    """Expected: those of `embed` for each sentence alone, at the word's place; labels by hand."""
    pairs = wic.read_pairs(folder, "train")
    assert pairs.labels is not None and pairs.labels.tolist() == 4 * [False, True, True]
    assert wic.read_pairs(folder, "test").labels is None
    elmo = Elmo.from_pretrained("tiny")
    vectors = wic.pair_vectors(elmo, pairs)
    expected = elmo.embed("A bank lends .", layer="all")[:, 1]
    assert vectors.shape == (4, 2, 12, 64)
    assert vectors[:3, 1, 0] == pytest.approx(expected, abs=1e-5)
    assert vectors[3, 1, 0] == pytest.approx(expected.mean(axis=0), abs=1e-5)
    cosines = 1 - paired_cosine_distances(*vectors[1])
    assert wic.cosines(vectors[1]) == pytest.approx(cosines, abs=1e-5)


def test_threshold() -> None:
    """Expected: the best of all thresholds, tried one by one with scikit-learn's accuracy, also
    with equal values; all pairs are different if none are equal."""
    random = np.random.default_rng(0)
    for _ in range(20):
        values = random.integers(0, 6, size=20) / 5
        labels = random.random(20) < values
        best = max(accuracy_score(labels, values >= x) for x in (*values, np.inf))
        threshold = wic.best_threshold(values, labels)
        assert accuracy_score(labels, values >= threshold) == best
    assert wic.best_threshold(values, labels=np.zeros(20, dtype=bool)) == np.inf


def test_rows(folder: Path) -> None:
    """By hand: equal training and development data, which the regression separates. Predictions
    have a letter for each pair, and no text."""
    rows, tests = wic.wic_rows("tiny", "pretrained://tiny", folder)
    assert len(rows) == len(tests) == 2 * 4
    assert all(row["metrics"]["accuracy"] == row["metrics"]["train_accuracy"] for row in rows)
    assert rows[3]["settings"] == {"layer": "LSTM 1", "classifier": wic.REGRESSION}
    assert rows[3]["metrics"]["accuracy"] == 100 and tests[3]["predictions"] == 4 * "FTT"
    assert "bank" not in str(rows)
