"""Scores of semantic change. The oracles are SciPy and scikit-learn."""

import subprocess
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy.spatial.distance import cdist, jensenshannon
from sklearn.decomposition import PCA

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.elmo import meanings
from elmo_plugin.elmo.meanings import changes, clusters, nearest, picture, principal_components
from tests.conftest import SHARED_DATA


@pytest.fixture
def two() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(0.3, 1, (20, 6)), random.normal(0.1, 1, (30, 6))


def test_vectors_of_two_layers_or_models_are_not_compared() -> None:
    """By definition; of frames that lost what their vectors are from, nothing is known."""
    first, second = (frame("cell", np.ones((2, 4)), k) for k in (0, 2))
    first.attrs, second.attrs = {"layer": "top", "biLM": "a"}, {"layer": "0", "biLM": "a"}
    with pytest.raises(
        InputError, match=r"^second: expected vectors as in the first, .*'top'.* fo"
    ):
        changes(first, second)
    second.attrs = {"layer": "top", "biLM": "a", "precision": "bf16", "computed_with": "a"}
    first.attrs |= {"precision": "fp32", "raw": "true", "computed_with": "b"}
    with pytest.raises(InputError, match=r"first, \{'precision': 'fp32'\}, found .*'bf16'\}$"):
        changes(first, second)
    second.attrs = {"layer": "top", "biLM": "a"}  # of a file of an earlier version
    changes(first, second)
    second.attrs = {}
    assert changes(first, second)["apd"][0] == pytest.approx(0)


def frame(word: str, vectors: np.ndarray, start: int = 0) -> pandas.DataFrame:
    texts = [f"{word} {start + k}" for k in range(len(vectors))]
    return pandas.DataFrame({"word": word, "text": texts, "position": 0, "vector": list(vectors)})


def test_distances(two: tuple[np.ndarray, np.ndarray]) -> None:
    """The oracle is SciPy, for all pairs and for the two means."""
    first, second = two
    expected = cdist(first, second, "cosine").mean()
    assert np.isclose(meanings.average_pairwise_distance(first, second), expected)
    cosine = 1 - cdist([first.mean(axis=0)], [second.mean(axis=0)], "cosine").item()
    assert np.isclose(meanings.prototype_distance(first, second), 1 / cosine)


def test_divergence(fuzz) -> None:
    """The oracle is SciPy, whose distance is the square root of the divergence."""
    for random in fuzz.cases(20):
        first, second = (
            np.array([random.randrange(1, 7) for _ in range(random.randrange(1, 30))])
            for _ in range(2)
        )
        p, q = (np.bincount(x, minlength=7) for x in (first, second))
        expected = jensenshannon(p, q, base=2) ** 2
        found = meanings.jensen_shannon_divergence(first, second)
        assert np.isclose(found, np.nan_to_num(expected), atol=1e-9)


def test_clusters() -> None:
    """By construction: three groups far from one another, in the default number of clusters and in
    a given one. Equal vectors are one cluster."""
    random = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 12)
    vectors = random.normal(size=(36, 5)) + 40 * np.eye(5)[groups]
    for found in (clusters(vectors), clusters(vectors, 3)):
        assert len({*zip(groups, found)}) == 3 == len({*found})
    assert len({*clusters(vectors, 2)}) == 2
    assert len({*clusters(vectors[:2], 3)}) == 2
    assert not clusters(np.ones((9, 4))).any() and not clusters(vectors[:1]).any()
    assert len({*clusters(vectors[:3])}) == 2  # with three, no use has another in its cluster
    with pytest.raises(InputError, match=r"^n_clusters: expected a whole number from 1"):
        clusters(vectors, 0)


def test_changes(two: tuple[np.ndarray, np.ndarray]) -> None:
    """By hand: a word whose uses move to another place has the largest scores; one without uses in
    the second text has none."""
    first, second = two
    old = pandas.concat([frame("same", first), frame("moved", first), frame("gone", first)])
    new = pandas.concat([frame("moved", second - 9), frame("same", first), frame("new", second)])
    found = changes(old, new).set_index("word")
    assert list(found.index) == ["same", "moved", "gone", "new"]
    assert found[["first", "second"]].values.tolist() == [[20, 20], [20, 30], [20, 0], [0, 30]]
    assert found.loc[["gone", "new"], ["apd", "prt", "jsd", "clusters"]].isna().all(axis=None)
    same, moved = found.loc["same"], found.loc["moved"]
    assert np.isclose(same["prt"], 1) and np.isclose(same["jsd"], 0)
    assert np.isclose(moved["jsd"], 1) and moved["clusters"] == 2
    assert moved["apd"] > same["apd"]
    assert found.equals(changes(old, new).set_index("word"))


def test_changes_in_given_clusters(two: tuple[np.ndarray, np.ndarray]) -> None:
    """Expected: the divergence of the clusters of the same number and seed."""
    found = set()
    for seed in range(3):
        labels = clusters(np.concatenate(two), 7, seed)
        row = changes(frame("a", two[0]), frame("a", two[1]), 7, seed).iloc[0]
        assert row["clusters"] == 7
        assert row["jsd"] == meanings.jensen_shannon_divergence(labels[:20], labels[20:])
        found.add(row["jsd"])
    assert len(found) > 1


def test_nearest(two: tuple[np.ndarray, np.ndarray]) -> None:
    """The oracle is SciPy. A sentence that is repeated counts once, at its first place, but two
    uses in it count both."""
    uses = pandas.concat([frame("a", two[0]), frame("b", two[1]), frame("a", two[0])])
    uses = uses.reset_index(drop=True)
    uses.loc[20, ["text", "position"]] = uses["text"][0], 3
    cosines = 1 - cdist(np.concatenate(two), two[1][:1], "cosine")[:, 0]
    found = nearest(uses, two[1][0], 7)
    assert found.index.tolist() == np.argsort(-cosines)[:7].tolist()
    np.testing.assert_allclose(found["cosine"], np.sort(cosines)[::-1][:7])
    assert nearest(uses, list(two[1][0]), 7).equals(found)
    with pytest.raises(InputError, match=r"^uses: expected at least one, found"):
        nearest(uses[:0], two[1][0])


def test_picture(two: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """The oracle is scikit-learn, whose components may have the other sign."""
    expected = PCA(2).fit_transform(two[1])
    np.testing.assert_allclose(np.abs(principal_components(two[1])), np.abs(expected), atol=1e-9)
    figure = picture(frame("a", two[1]), ["old"] * 10 + ["new"] * 20)
    figure.savefig(tmp_path / "a.svg")
    assert [len(x.get_offsets()) for x in figure.axes[0].collections] == [20, 10]


def test_vectors_that_cannot_be_compared(two: tuple[np.ndarray, np.ndarray]) -> None:
    """The sizes are those of the arrays, and each argument is named."""
    first, short = two[0], two[1][:, :-1]
    n = first.shape[1]
    uses, others = frame("a", first), frame("a", short)
    with pytest.raises(InputError, match=rf"^vector: .* shape \({n},\).*, found \({n - 1},\)"):
        nearest(uses, short[0])
    with pytest.raises(InputError, match=rf"^vector: .*, found \(1, {n}\)"):
        nearest(uses, first[:1])
    with pytest.raises(InputError, match=rf"^uses: .* of one size, found \[{n - 1}, {n}\]"):
        changes(uses, others)


def test_a_picture_of_too_little(two: tuple[np.ndarray, np.ndarray]) -> None:
    """One point has no principal components, and each use has a group."""
    uses = frame("a", two[0])
    with pytest.raises(InputError, match=r"^vectors: expected at least two, .*, found 1$"):
        picture(uses[:1], ["old"])
    for groups in (["old"], "old", []):
        with pytest.raises(InputError, match=rf"^groups: expected one for each of the {len(uses)}"):
            picture(uses, groups)


WORDS = "market water cells price energy government level plants system number process".split()


@pytest.mark.long
def test_pseudo_change(tmp_path: Path) -> None:
    """By construction: two words that stand for each other in every other sentence have changed
    most by PRT and JSD, and no word has changed by half as much. Between two samples of the same
    sentences nothing has."""
    if not (SHARED_DATA / "unpack").exists():
        pytest.skip("needs the shared data next to the checkout")
    subprocess.run([SHARED_DATA / "unpack", tmp_path, "lm-openstax"], check=True)
    files = (tmp_path / "openstax" / "train" / f"{x}.txt" for x in ("economics", "biology"))
    lines = [line.split() for file in files for line in file.open()]
    other = {"market": "water", "water": "market"}
    swapped = [[other.get(word, word) for word in line] for line in lines[1::2]]
    elmo = Elmo.from_pretrained("small")
    first, same, second = (
        elmo.uses(text, WORDS, most=100) for text in (lines[::2], lines[1::2], swapped)
    )
    found = changes(first, second).set_index("word")
    for score in (found["prt"] - 1, found["jsd"]):
        ranked = score.sort_values(ascending=False)
        assert {*ranked.index[:2]} == {"market", "water"}
        assert ranked.iloc[2] < ranked.iloc[1] / 2
    control = changes(first, same)
    assert (control["prt"] < 1.01).all() and (control["jsd"] < 0.1).all()
