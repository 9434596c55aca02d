"""Change of meaning on an invented data set in DWUG's format, with `tiny`."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cosine, jensenshannon
from scipy.stats import spearmanr

from elmo_plugin import Elmo
from experiments import dwug

WORDS = ("cell_nn", "coach_nn", "pin_vb")
HEAD = "lemma grouping identifier context_tokenized indexes_target_token_tokenized"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three words with six uses in each period, one of which is in no cluster, and ten pairs."""
    random = np.random.default_rng(0)
    for name in (*(f"data/{word}" for word in WORDS), "clusters/opt"):
        (tmp_path / name).mkdir(parents=True)
    for number, word in enumerate(WORDS):
        uses, clusters = [HEAD.replace(" ", "\t")], ["identifier\tcluster"]
        for k in range(12):
            before = random.choice(["the", '"', "NA", "a", "old", "in"], size=1 + k % 4)
            form = word[:-3] + "s" * (k % 3 == 0)
            text = " ".join([*before, form, "was", f"here{k % 5}"])
            uses.append("\t".join(map(str, (word, 1 + k // 6, f"{word}-{k}", text, len(before)))))
            cluster = -1 if k == 3 else int(k > 5 and k > 10 - 2 * number)
            clusters.append(f"{word}-{k}\t{cluster}")
        judged = ["identifier1\tidentifier2\tannotator\tjudgment"]
        for _ in range(10):
            a, b = random.choice(12, size=2, replace=False)
            judged.append(f"{word}-{a}\t{word}-{b}\tx\t{random.integers(1, 5)}")
            judged.append(f"{word}-{b}\t{word}-{a}\ty\t{random.integers(0, 5)}")
        for file, lines in (
            (f"data/{word}/uses.csv", uses),
            (f"data/{word}/judgments.csv", judged),
            (f"clusters/opt/{word}.csv", clusters),
        ):
            (tmp_path / file).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_pairs(folder: Path) -> None:
    """By hand: a pair once, with the mean of its judgments in either order, without those that are
    0. Quotes and *NA* are words."""
    uses = dwug.read_uses(folder)
    assert uses["sentence"].str.contains('"').any() and uses["sentence"].str.contains("NA").any()
    given: dict[frozenset, list[int]] = {}
    for file in folder.glob("data/*/judgments.csv"):
        for line in file.read_text().splitlines()[1:]:
            a, b, _, judgment = line.split("\t")
            given.setdefault(frozenset([a, b]), []).append(int(judgment))
    expected = {key: np.mean([x for x in own if x]) for key, own in given.items()}
    names, pairs = uses["identifier"], dwug.read_pairs(folder, uses)
    found = {frozenset([names[a], names[b]]): x for a, b, x in pairs[["a", "b", "judgment"]].values}
    assert found == pytest.approx(expected) and len(pairs) == len(expected)


def test_rows(folder: Path) -> None:
    """Expected: vectors of `embed` for each sentence alone; the mean of SciPy's cosine distances,
    the cosine of the means, SciPy's Jensen-Shannon distance, and its Spearman, for
    which equal forms in the first layer, whose cosine is 1, are ties."""
    elmo = Elmo.from_pretrained("tiny")
    rows = dwug.dwug_rows("tiny", "pretrained://tiny", folder)
    assert [row["settings"]["layer"] for row in rows] == ["words", "LSTM 1", "LSTM 2", "average"]
    uses = dwug.read_uses(folder)
    pairs = dwug.read_pairs(folder, uses)
    layers: tuple[int | str, ...] = 0, 1, 2, "average"
    for row, layer in zip(rows, layers):
        places = zip(uses["sentence"], uses["start"])
        vectors = np.stack([elmo.embed(x, layer)[k] for x, k in places])
        for word, found in row["metrics"]["words"].items():
            own = (uses["word"] == word).to_numpy()
            old, new = (own & (uses["period"] == period).to_numpy() for period in (1, 2))
            distances = [cosine(a, b) for a in vectors[old] for b in vectors[new]]
            assert found["uses"] == [6, 6]
            assert found["apd"] == pytest.approx(np.mean(distances), abs=1e-5)
            prt = 1 / (1 - cosine(vectors[old].mean(axis=0), vectors[new].mean(axis=0)))
            assert found["prt"] == pytest.approx(prt, abs=1e-5)
            known = (uses["cluster"] >= 0).to_numpy()
            counts = [np.bincount(uses["cluster"][x & known], minlength=2) for x in (old, new)]
            assert found["change"] == pytest.approx(jensenshannon(*counts, base=2), abs=1e-5)
            mine = pairs[pairs["word"] == word]
            cosines = [1 - cosine(vectors[a], vectors[b]) for a, b in zip(mine["a"], mine["b"])]
            expected = spearmanr(np.round(cosines, 6), mine["judgment"]).statistic
            assert found["pairs"] == len(mine)
            assert found["pairs_spearman"] == pytest.approx(expected, abs=0.01)
        every = [1 - cosine(vectors[a], vectors[b]) for a, b in zip(pairs["a"], pairs["b"])]
        expected = spearmanr(np.round(every, 5), pairs["judgment"]).statistic
        assert row["metrics"]["all_pairs"][0] == pytest.approx(expected, abs=0.01)


def test_spearman() -> None:
    """Expected: SciPy's, with ties, for each row; NaN without variation."""
    x, y = np.random.default_rng(0).integers(0, 5, size=(2, 4, 12)).astype(float)
    x[3] = 1
    found = dwug.spearman(x, y)
    assert found[:3] == pytest.approx([spearmanr(*pair).statistic for pair in zip(x[:3], y[:3])])
    assert np.isnan(found[3])
