"""Scores of semantic change. The oracles are SciPy and scikit-learn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.spatial.distance import cdist, jensenshannon
from scipy.stats import binomtest, permutation_test
from sklearn.decomposition import PCA

from elmo_plugin.checks import InputError
from elmo_plugin.corpora import meanings
from elmo_plugin.corpora.meanings import changes, clusters, nearest, picture, principal_components


@pytest.fixture
def two() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(0.3, 1, (20, 6)), random.normal(0.1, 1, (30, 6))


def test_vectors_of_two_layers_or_models_are_not_compared() -> None:
    """By definition; of frames that lost what their vectors are from, nothing is known."""
    first, second = (frame("cell", np.ones((2, 4)), k) for k in (0, 2))
    first.attrs, second.attrs = {"layer": "top", "biLM": "a"}, {"layer": "0", "biLM": "a"}
    with pytest.raises(InputError, match=r"^second: expected vectors as in the first, .*'top'"):
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
    cosine = 1 - cdist([first.mean(axis=0)], [second.mean(axis=0)], "cosine").item()
    for x, y in ((first, second), (first.tolist(), frame("a", second)["vector"])):
        assert np.isclose(meanings.average_pairwise_distance(x, y), expected)
        assert np.isclose(meanings.prototype_distance(x, y), 1 / cosine)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_orthogonal_means(zero: float) -> None:
    """By definition: the cosine of counts without a common feature is 0, and PRT infinite."""
    old, new = (frame("a", np.array([x])) for x in ([1.0, zero], [zero, 1.0]))
    found = changes(old, new, permutations=3).iloc[0]
    assert found["prt"] == np.inf and found["prt_p"] == 1
    assert meanings.prototype_distance(*map(meanings.vectors_of, (old, new))) == np.inf


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


def test_changes(two: tuple[np.ndarray, np.ndarray]) -> None:
    """By hand: a word whose uses move to another place has the largest scores; one without uses in
    the second text has none."""
    first, second = two
    old = pandas.concat([frame("same", first), frame("moved", first), frame("gone", first)])
    new = pandas.concat([frame("moved", second - 9), frame("same", first), frame("new", second)])
    every = ["apd", "prt", "jsd"]
    found = changes(old, new, measures=every).set_index("word")
    assert list(found.index) == ["same", "moved", "gone", "new"]
    assert found[["first", "second"]].values.tolist() == [[20, 20], [20, 30], [20, 0], [0, 30]]
    assert found.loc[["gone", "new"], ["apd", "prt", "jsd", "clusters"]].isna().all(axis=None)
    same, moved = found.loc["same"], found.loc["moved"]
    assert np.isclose(same["prt"], 1) and np.isclose(same["jsd"], 0)
    assert np.isclose(moved["jsd"], 1) and moved["clusters"] == 2
    assert moved["apd"] > same["apd"]
    assert found.equals(changes(old, new, measures=every).set_index("word"))


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


def with_controls() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """
    A listed word and four controls, of each one use of length 1 in each text, at angles in degrees.
    The last has no use in the second text. *Alone* has no controls.
    """
    angles = {"listed": (0, 60), "far": (0, 80), "same": (20, 80), "near": (5, 35)}
    angles |= {"gone": (0, None), "alone": (0, 10)}
    frames: tuple[list, list] = ([], [])
    for word, places in angles.items():
        of = "" if word in ("listed", "alone") else "listed"
        for rows, place in zip(frames, places):
            if place is not None:
                vector = np.array([np.cos(np.radians(place)), np.sin(np.radians(place))])
                rows.append({"word": word, "control_of": of, "vector": vector})
    first, second = map(pandas.DataFrame, frames)
    return first, second


def test_ranks_among_controls() -> None:
    """By hand: the angles are 60 degrees, and 80, 60 and 30 of the controls that have scores. So
    one of three is lower, and two are as high. A score that is equal up to rounding counts."""
    found = changes(*with_controls()).set_index("word")
    names = ["apd_percentile", "apd_control_p", "prt_percentile", "prt_control_p"]
    assert [*found] == ["control_of", "first", "second", "apd", "prt", "controls", *names]
    assert found.loc["listed", ["controls", *names]].tolist() == pytest.approx(
        [3, 100 / 3, 3 / 4, 100 / 3, 3 / 4]
    )
    assert found.loc["listed", "apd"] == pytest.approx(0.5)
    others = found.drop(index="listed")
    assert others[names].isna().all(axis=None) and (others["controls"] == 0).all()
    assert found["control_of"].to_dict() == {
        **dict.fromkeys(("far", "same", "near", "gone"), "listed"),
        "listed": "",
        "alone": "",
    }


def test_ranks_of_opposite_means_and_of_too_few_uses() -> None:
    """By hand: with an angle above 90 degrees PRT is negative, which is a larger change than any
    positive one. A word with too few uses has no rank."""
    first, second = with_controls()
    second.loc[second["word"] == "listed", "vector"] = pandas.Series([np.array([-1.0, 0.1])])
    found = changes(first, second).set_index("word").loc["listed"]
    assert found["prt"] < 0 and found["prt_percentile"] == 100 and found["prt_control_p"] == 1 / 4
    second.loc[1:1, "vector"] = pandas.Series([np.array([-1.0, 0.01])], index=[1])
    found = changes(first, second, measures="prt").set_index("word").loc["listed"]
    assert found["prt_percentile"] == pytest.approx(200 / 3) and found["prt_control_p"] == 2 / 4
    found = changes(first, second, min_uses=2).set_index("word").loc["listed"]
    assert found[["prt_percentile", "prt_control_p"]].isna().all() and found["controls"] == 0


@pytest.mark.parametrize("measures", [["apd", "jsd"], ["jsd", "apd"]])
def test_a_control_without_one_of_the_scores(measures: list[str]) -> None:
    """By hand: *near* has only noise in the second text and so no JSD, and both other controls
    change as much as the listed word or more. All columns are about these two."""
    first, second = (x.assign(sense=x["word"].map({"near": -1}).fillna(1)) for x in with_controls())
    found = changes(first, second, labels="sense", measures=measures).set_index("word")
    names = ["controls", "apd_percentile", "apd_control_p", "jsd_percentile", "jsd_control_p"]
    assert found.loc["listed", names].tolist() == [2, 0, 1, 0, 1]


def test_ranks_of_periods_and_without_the_column() -> None:
    """By definition: each pair of periods has its ranks; missing values are listed words; without
    control words there are no such columns."""
    first, second = with_controls()
    missing = second.replace({"control_of": {"": None}})
    pair, alone = changes({"a": first, "b": missing, "c": second}), changes(first, second)
    assert pair[:6].drop(columns=["from", "to"]).equals(alone)
    del first["control_of"], second["control_of"]
    assert [*changes(first, second)] == ["word", "first", "second", "apd", "prt"]


def test_words_with_other_controls() -> None:
    """By definition: a word is the control of one word in both texts."""
    first, second = with_controls()
    other = second.assign(control_of="alone")
    with pytest.raises(InputError, match=r"^control_of: expected one value for .* found \{'li"):
        changes(first, other)


Two = tuple[np.ndarray, np.ndarray]


def test_only_the_measures_that_were_asked_for(two: Two, monkeypatch) -> None:
    """By definition, the columns are those asked for and no clusters are made without JSD. Their
    values are those of all measures, whatever is computed besides them."""
    old, new = frame("a", two[0]), frame("a", two[1])
    options = {"permutations": 50, "n_clusters": 3}
    every = changes(old, new, **options)
    scores = ["apd", "prt", "jsd"]
    assert [*every] == ["word", "first", "second", *scores, "clusters", *(f"{x}_p" for x in scores)]
    assert [*changes(old, new, 3)] == [*every][:7]
    assert changes(old, new, 3).equals(every[[*every][:7]])
    alone = changes(old, new, measures=("jsd", "jsd"), **options)
    assert alone.equals(every[["word", "first", "second", "jsd", "clusters", "jsd_p"]])
    labels = {"labels": "text"}
    assert [*changes(old, new, **labels)] == ["word", "first", "second", *scores, "clusters"]
    monkeypatch.setattr(meanings, "clusters", None)
    assert changes(old, new).equals(every[["word", "first", "second", "apd", "prt"]])
    found = changes(old, new, measures=["prt", "apd"], permutations=50)
    assert found.equals(every[["word", "first", "second", "prt", "apd", "prt_p", "apd_p"]])
    assert [*changes(old, new, measures="prt")] == ["word", "first", "second", "prt"]


@pytest.mark.parametrize("measure", ["apd", "prt", "jsd"])
def test_p_of_all_divisions(measure: str) -> None:
    """The oracle is SciPy's test of all 126 divisions of nine uses. The number of random divisions
    with a score as large as the observed one is binomial."""
    draw = np.random.default_rng(3)
    first, second = draw.normal(0.9, 1, (4, 3)), draw.normal(0.4, 1, (5, 3))
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 1, 0])

    def score(one: np.ndarray, other: np.ndarray, axis: int = 0) -> float:
        if measure == "jsd":
            p, q = (np.bincount(labels[x], minlength=3) for x in (one, other))
            return jensenshannon(p, q) ** 2
        a, b = (np.concatenate([first, second])[x] for x in (one, other))
        if measure == "apd":
            return cdist(a, b, "cosine").mean()
        return cdist([a.mean(axis=0)], [b.mean(axis=0)], "cosine").item()

    places = np.arange(4), np.arange(4, 9)
    expected = permutation_test(
        places, score, vectorized=False, n_resamples=np.inf, alternative="greater"
    ).pvalue
    old = frame("a", first).assign(label=labels[:4])
    new = frame("a", second).assign(label=labels[4:])
    n = 4_321  # not a multiple of the permutations that are computed at once
    found = changes(old, new, measures=measure, permutations=n, labels="label")
    n_as_large = found[f"{measure}_p"][0] * (1 + n) - 1
    assert np.isclose(n_as_large, round(n_as_large)) and 0.02 < expected < 0.98
    assert binomtest(round(n_as_large), n, expected).pvalue > 0.001


def test_p_of_a_division_of_few_uses(two: Two) -> None:
    """By hand: with equal vectors all divisions are as large, and the least p is 1 / (1 +
    permutations)."""
    same = frame("a", np.ones((5, 3)))
    found = changes(same, same, 2, permutations=99).iloc[0]
    assert found[["apd_p", "prt_p", "jsd_p"]].tolist() == [1, 1, 1]
    found = changes(frame("a", two[0]), frame("a", two[1] - 9), 2, permutations=99).iloc[0]
    assert found[["apd_p", "prt_p", "jsd_p"]].tolist() == [0.01] * 3


def test_p_depends_on_the_word_and_the_seed(two: Two) -> None:
    """By definition; neither the other words nor their order change the p of a word."""
    old = pandas.concat([frame("a", two[0]), frame("b", two[0])])
    new = pandas.concat([frame("b", two[1]), frame("a", two[1])])
    options = {"measures": "apd", "permutations": 999}
    both = changes(old, new, **options).set_index("word")["apd_p"]
    alone = changes(frame("b", two[0]), frame("b", two[1]), **options)["apd_p"][0]
    assert alone == both["b"] != both["a"]
    assert changes(old, new, seed=1, **options)["apd_p"].tolist() != both.tolist()


def test_too_few_uses(two: Two) -> None:
    """By definition: a word with fewer uses in one of the texts has a row without scores."""
    old = pandas.concat([frame("a", two[0]), frame("b", two[0][:4])])
    new = pandas.concat([frame("a", two[1]), frame("b", two[1])])
    options = {"measures": ["apd", "prt"], "permutations": 9}
    every = changes(old, new, **options)
    assert every.notna().all(axis=None)
    assert changes(old, new, min_uses=4, **options).equals(every)
    found = changes(old, new, min_uses=5, **options)
    assert found[:1].equals(every[:1])
    assert found.iloc[1].dropna().to_dict() == {"word": "b", "first": 4, "second": 30}


def test_periods(two: Two) -> None:
    """Expected: the same as one call for each pair of neighbors."""
    uses = pandas.concat([frame("b", two[0] - 1), frame("a", two[0])])
    periods = {1800: frame("a", two[0]), 1850: frame("a", two[1]), 1900: uses}
    options = {"measures": ["prt", "jsd"], "permutations": 20, "seed": 3}
    found = changes(periods, **options)
    assert [*found][:5] == ["from", "to", "word", "first", "second"]
    assert found["from"].tolist() == [1800, 1850, 1850] and [*found["word"]] == [*"aab"]
    assert found["to"].tolist() == [1850, 1900, 1900]
    pairs = [changes(periods[a], periods[b], **options) for a, b in ((1800, 1850), (1850, 1900))]
    assert found.drop(columns=["from", "to"]).equals(pandas.concat(pairs, ignore_index=True))
    periods[1900].attrs, periods[1850].attrs = {"layer": "0"}, {"layer": "top"}
    with pytest.raises(InputError, match=r"^1850, 1900: second: expected vectors as in the first"):
        changes(periods)


@pytest.mark.parametrize("kind", ["numbers", "strings", "missing"])
def test_labels_of_any_clustering(two: Two, kind: str) -> None:
    """The oracle is SciPy, for the uses that are in a cluster. Numbers may be text in one table."""
    draw = np.random.default_rng(5)
    labels = draw.choice([-1, 3, 40, 1_000_000], 50)
    values: list = [*map(float, labels[:20]), *map(str, [*labels[20:35], *map(float, labels[35:])])]
    if kind != "numbers":
        values = [{"missing": None}.get(kind, -1) if x == -1 else f"cluster {x}" for x in labels]
    old = frame("a", two[0]).assign(sense=values[:20])
    new = frame("a", two[1]).assign(sense=values[20:])
    p, q = ([(x == k).sum() for k in (3, 40, 1_000_000)] for x in (labels[:20], labels[20:]))
    expected = jensenshannon(p, q, base=2) ** 2
    row = changes(old, new, labels="sense").iloc[0]
    assert row["jsd"] == pytest.approx(expected) and (row["clusters"], row["first"]) == (3, 20)
    found = meanings.jensen_shannon_divergence(values[:20], np.array(values[20:], dtype=object))
    assert found == pytest.approx(expected) and expected > 0.001
    for first, second in ([], []), ([], values), ([-1], [None]), (["-1.0"], ["1.0"]):
        assert np.isnan(meanings.jensen_shannon_divergence(first, second))
    assert meanings.jensen_shannon_divergence(["sense 1"], ["sense 1.0"]) == 1
    row = changes(old.assign(sense=-1), new, labels="sense", permutations=9).iloc[0]
    assert row[["jsd", "jsd_p"]].isna().all() and row["apd_p"] > 0


def test_nearest(two: tuple[np.ndarray, np.ndarray]) -> None:
    """The oracle is SciPy. A sentence that is repeated counts once, at its first place, but two
    uses in it count both, also if a phrase begins with the other word."""
    uses = pandas.concat(map(frame, "aba", (*two, two[0])), ignore_index=True)
    uses.loc[20, ["text", "position"]] = uses["text"][0], 3
    cosines = 1 - cdist(np.concatenate(two), two[1][:1], "cosine")[:, 0]
    found = nearest(uses, two[1][0], 7)
    assert found.index.tolist() == np.argsort(-cosines)[:7].tolist()
    np.testing.assert_allclose(found["cosine"], np.sort(cosines)[::-1][:7])
    assert nearest(uses, list(two[1][0]), 7).equals(found)
    phrases = frame("a", two[0][:2]).assign(text="It is ice cream", token=["ice", "ice cream"])
    assert nearest(phrases, two[0][1])["token"].tolist() == ["ice cream", "ice"]


def test_picture(two: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """The oracle is scikit-learn, whose components may have the other sign."""
    expected = PCA(2).fit_transform(two[1])
    np.testing.assert_allclose(np.abs(principal_components(two[1])), np.abs(expected), atol=1e-9)
    figure = picture(frame("a", two[1]), ["old"] * 10 + ["new"] * 20)
    figure.savefig(tmp_path / "a.svg")
    assert [len(x.get_offsets()) for x in figure.axes[0].collections] == [20, 10]
    for missing in (np.nan, None):
        groups = np.array([1] * 10 + [missing] * 20, dtype=object)
        panel = picture(frame("a", two[1]), groups).axes[0]
        assert [len(x.get_offsets()) for x in panel.collections] == [10, 20]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: changes(a.drop(columns="word"), b), "first: expected .* columns word, found"),
        (lambda a, b: changes("text", b), "first: expected a DataFrame with .*, found 'text'"),
        (lambda a, b: changes(a.assign(x=1), b, labels="x"), "second: .* the columns x, found"),
        (lambda a, b: changes(a, b, labels="text", n_clusters=2), "n_clusters: expected none"),
        (lambda a, b: changes(a, b, measures=["apd", "cos"]), "measures: expected one of .* 'cos'"),
        (lambda a, b: changes(a, b, measures=5), "measures: expected one of .*, found 5"),
        (lambda a, b: changes(a, b, permutations=-1), "permutations: expected a whole number"),
        (lambda a, b: changes(a, b, min_uses=0), "min_uses: expected a whole number from 1"),
        (lambda a, b: changes(a, b, seed=-1), "seed: expected a whole number from 0"),
        (lambda a, b: changes({"a": a}), "second: expected a DataFrame, or none after"),
        (lambda a, b: clusters([[1], [1, 2]]), r"vectors: .* one size, .* \[\(1,\), \(2,\)\]"),
        (lambda a, b: changes(a, b.assign(vector=np.nan)), r"uses: .*, found \[\(\), \(6,\)\]"),
        (lambda a, b: clusters(np.ones((2, 3, 6))), r"vectors: .*, found \[\(3, 6\)\]"),
        (lambda a, b: clusters(np.ones((3, 2)), 0), "n_clusters: expected a whole number from 1"),
        (lambda a, b: nearest(a, np.ones(5)), r"vector: .* shape \(6,\) .*, found \(5,\)"),
        (lambda a, b: clusters([]), "vectors: expected at least one, found"),
        (lambda a, b: clusters([[np.nan], [1]]), r"vectors: expected .* finite .*, found \[nan\]"),
        (lambda a, b: nearest(a, "cell"), r"vector: .* shape \(6,\) .*, found \(\)"),
        (lambda a, b: changes(a, b.assign(word=None)), "second: word: expected a word for each"),
        (lambda a, b: nearest(a.drop(columns="text"), np.ones(6)), "uses: .* columns text, found"),
        (lambda a, b: nearest(a[["text", "position"]], 1), "uses: .* columns vector, found"),
        (lambda a, b: picture(a[:1], ["old"]), "vectors: expected at least two, .*, found 1"),
        (lambda a, b: picture(a, ["old"]), "groups: expected one for each of the 20"),
    ],
)
def test_wrong_arguments(two: Two, call: Callable[..., Any], message: str) -> None:
    """By definition: the error names the argument. The uses have vectors of size 6."""
    with pytest.raises(InputError, match=f"^{message}"):
        call(frame("a", two[0]), frame("a", two[1]))
