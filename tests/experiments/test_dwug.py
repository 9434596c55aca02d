"""Change of meaning on an invented data set in DWUG's format, with `tiny`."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cosine, jensenshannon
from scipy.stats import spearmanr

from elmo_plugin import Elmo
from experiments import dwug
from experiments.rows import read_rows, save_rows

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


def test_tables(folder: Path) -> None:
    """By hand: the rows of all words, with quotes and *NA* as they are written; a pair once, with
    the mean of its judgments in either order, without those that are 0."""
    uses = dwug.read_uses(folder)
    assert len(uses) == 36 and list(uses["word"].unique()) == list(WORDS)
    assert uses["cluster"].tolist()[:7] == [0, 0, 0, -1, 0, 0, 0]
    tokens = [text.split()[k] for text, k in zip(uses["sentence"], uses["start"])]
    assert {x.removesuffix("s") for x in tokens} == {word[:-3] for word in WORDS}
    assert uses["sentence"].str.contains('"').any() and uses["sentence"].str.contains("NA").any()
    pairs = dwug.read_pairs(folder, uses)
    given: dict[frozenset, list[int]] = {}
    for word in WORDS:
        for line in (folder / f"data/{word}/judgments.csv").read_text().splitlines()[1:]:
            a, b, _, judgment = line.split("\t")
            given.setdefault(frozenset([a, b]), []).append(int(judgment))
    expected = {key: np.mean([x for x in own if x]) for key, own in given.items()}
    names = uses["identifier"]
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
        vectors = np.stack(
            [elmo.embed(x, layer)[k] for x, k in zip(uses["sentence"], uses["start"])]
        )
        for word, found in row["metrics"]["words"].items():
            own = (uses["word"] == word).to_numpy()
            old, new = (own & (uses["period"] == period).to_numpy() for period in (1, 2))
            distances = [cosine(a, b) for a in vectors[old] for b in vectors[new]]
            assert found["uses"] == [6, 6]
            assert found["apd"] == pytest.approx(np.mean(distances), abs=1e-5)
            prt = 1 / (1 - cosine(vectors[old].mean(axis=0), vectors[new].mean(axis=0)))
            assert found["prt"] == pytest.approx(prt, abs=1e-5)
            counts = [
                np.bincount(uses["cluster"][x & (uses["cluster"] >= 0)], minlength=2)
                for x in (old, new)
            ]
            assert found["change"] == pytest.approx(jensenshannon(*counts, base=2), abs=1e-5)
            mine = pairs[pairs["word"] == word]
            cosines = [1 - cosine(vectors[a], vectors[b]) for a, b in zip(mine["a"], mine["b"])]
            expected = spearmanr(np.round(cosines, 6), mine["judgment"]).statistic
            assert found["pairs"] == len(mine)
            assert found["pairs_spearman"] == pytest.approx(expected, abs=0.01)
        every = [1 - cosine(vectors[a], vectors[b]) for a, b in zip(pairs["a"], pairs["b"])]
        expected = spearmanr(np.round(every, 5), pairs["judgment"]).statistic
        value, low, high = row["metrics"]["all_pairs"]
        assert value == pytest.approx(expected, abs=0.01) and low <= value <= high


def test_spearman() -> None:
    """Expected: SciPy's, with ties, for each row; NaN without variation."""
    x, y = np.random.default_rng(0).integers(0, 5, size=(2, 4, 12)).astype(float)
    x[3] = 1
    found = dwug.spearman(x, y)
    assert found[:3] == pytest.approx([spearmanr(*pair).statistic for pair in zip(x[:3], y[:3])])
    assert np.isnan(found[3])


def made_up(bilm: str, layer: str, noise: float) -> dict:
    """The row of a layer whose scores follow the change of 30 words with some noise."""
    random = np.random.default_rng(2)
    change, other = random.random((2, 30))
    words = {
        f"w{k}_nn": {
            "uses": [100, 100],
            "pairs": 50,
            "change": x,
            "apd": x + noise * y,
            "prt": 1 + y,
            "pairs_spearman": 0.2 + 0.1 * x if k else float("nan"),
        }
        for k, (x, y) in enumerate(zip(change, other))
    }
    metrics = {"words": words, "all_pairs": [0.3, 0.2, 0.4]}
    return {"bilm": bilm, "settings": {"layer": layer}, "metrics": metrics}


def test_intervals() -> None:
    """Expected: SciPy's Spearman, within its interval; equal rows differ by nothing in every
    sample; the mean of words leaves out one whose pairs have one judgment."""
    a, b = made_up("a", "LSTM 2", 1.0), made_up("b", "LSTM 2", 0.0)
    found = dwug.correlation(a, "apd")
    expected = spearmanr(dwug.column(a, "apd"), dwug.column(a, "change")).statistic
    assert found.value == pytest.approx(expected) and found.low < expected < found.high
    assert dwug.correlation(b, "apd") == pytest.approx((1, 1, 1))
    assert dwug.correlation(a, "apd", a) == (0, 0, 0)
    assert dwug.correlation(b, "apd", a).value == pytest.approx(1 - expected)
    change = dwug.column(a, "change")
    assert dwug.within(a).value == pytest.approx(0.2 + 0.1 * change[1:].mean())


def test_sections(tmp_path: Path) -> None:
    """By hand: the headline is the last LSTM layer of each biLM, and has no transformer."""
    layers = ("words", "LSTM 1", "LSTM 2", "average")
    rows = [made_up(name, layer, 0.0) for name in ("a", "b") for layer in layers]
    rows += [made_up("minilm", layer, 1.0) for layer in ("embeddings", "layer 1", "average")]
    save_rows(tmp_path / dwug.FILE.name, rows)
    assert len(read_rows(tmp_path / dwug.FILE.name)) == 11
    found = dwug.sections(tmp_path)
    lines = found["Change of meaning"].splitlines()
    assert lines[0].startswith("|  | change of 30 words, `apd` | above `a` |")
    assert lines[2].startswith("| `a` | 1.00 (1.00 to 1.00) |  | 0.30 (0.20 to 0.40) | 0.2")
    assert lines[3].startswith("| `b` | 1.00 (1.00 to 1.00) | +0.00 (+0.00 to +0.00) |")
    assert len(lines) == 4
    assert "| `minilm` | layer 1 |" in found["Change of meaning by layer"]
    assert dwug.sections(tmp_path / "none") == {}
