"""
Compares the uses of words, as `Elmo.uses` and `read_uses` give them, and measures how much a word's
meaning changes between two texts. Vectors are an array of shape `(n, 2P)`, one for each use, or a
list or a column of them.

APD and PRT are those of Kutuzov and Giulianelli (2020, https://arxiv.org/abs/2005.00050). The
clusters and their JSD are those of Giulianelli et al. (2020, https://arxiv.org/abs/2004.14118). The
permutation test is that of Liu et al. (2021, https://aclanthology.org/2021.eval4nlp-1.11).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import check_choice, check_count, fail, is_whole, named, needed
from elmo_plugin.corpora.uses import VECTOR
from elmo_plugin.corpora.writers import COMPUTED_WITH

AT_ONCE = 500
"""Number of permutations in one matrix product."""
ROUNDING = 1e-10
"""Differences of scores below this are rounding errors, and count as equal."""


def vectors_of(uses: Any) -> np.ndarray:
    """
    The vectors of the uses in a DataFrame, float64. Raises an `InputError` if it has none, one is
    missing or has a NaN or infinite number, or their sizes differ.
    """
    _check_columns("uses", uses, VECTOR)
    return _array("uses", uses[VECTOR])


def _array(name: str, vectors: Any) -> np.ndarray:
    """The vectors in an array, a list or a column of a DataFrame, shape `(n, size)`, float64."""
    if not len(vectors):
        fail(name, "at least one", "none")
    shapes = {np.shape(vector) for vector in vectors}  # of a missing one ()
    if [*map(len, shapes)] != [1]:
        fail(name, "vectors of one size", sorted(shapes))
    stacked = np.stack([*vectors]).astype(np.float64)
    if len(others := stacked[~np.isfinite(stacked)]):
        fail(name, "vectors of finite numbers", others.tolist())
    return stacked


def average_pairwise_distance(first: np.ndarray, second: np.ndarray) -> float:
    """The mean cosine distance between a use of the first text and one of the second (APD)."""
    one, other = _array("first", first), _array("second", second)
    return float(_apd(_unit(one).mean(axis=0), _unit(other).mean(axis=0)))


def prototype_distance(first: np.ndarray, second: np.ndarray) -> float:
    """
    The inverse of the cosine of the two mean vectors (PRT); at least 1 if it is positive, and
    infinite if the cosine is 0.
    """
    one, other = _array("first", first), _array("second", second)
    return _inverse(_negative_cosine(one.mean(axis=0), other.mean(axis=0)))


def jensen_shannon_divergence(first: Iterable[Any], second: Iterable[Any]) -> float:
    """
    The Jensen-Shannon divergence of two distributions over clusters in bits (JSD), from 0 to 1.
    `first`, `second`: the labels of the clusters of the uses in each text, such as numbers or
    strings; 1 and "1" are the same. Uses with the label -1 (noise in HDBSCAN) or a missing value
    are left out. NaN for a text without other uses.
    """
    first = [*first]
    p, q = np.split(_members([*first, *second]), [len(first)])
    return float(_jsd(*(x.sum(axis=0) / max(1, len(x)) for x in (p, q))))


def clusters(vectors: np.ndarray, n_clusters: int | None = None, seed: int = 0) -> np.ndarray:
    """
    The number of the cluster of each use, from 0, by k-means on standardized vectors. By default,
    the number of clusters is the one from 2 to 10 with the highest silhouette score. There are at
    most as many as different vectors. Needs scikit-learn.
    """
    seed = check_count("seed", seed, least=0)
    scaler = needed("sklearn.preprocessing").StandardScaler()
    scaled = scaler.fit_transform(_array("vectors", vectors))

    def labels(n: int) -> np.ndarray:
        return needed("sklearn.cluster").KMeans(n, n_init=10, random_state=seed).fit_predict(scaled)

    n_different = len(np.unique(scaled, axis=0))
    if n_clusters is not None:
        return labels(min(check_count("n_clusters", n_clusters), n_different))
    most = min(10, n_different, len(scaled) - 1)
    if most < 2:
        return np.zeros(len(scaled), dtype=int)
    silhouette = needed("sklearn.metrics").silhouette_score
    return max(map(labels, range(2, most + 1)), key=lambda x: silhouette(scaled, x))


def changes(
    first: Any,
    second: Any = None,
    n_clusters: int | None = None,
    seed: int = 0,
    *,
    measures: Iterable[str] | None = None,
    permutations: int = 0,
    min_uses: int = 1,
    labels: str | None = None,
) -> Any:
    """
    How much the use of each word differs between two texts, or from each period to the next.

    # Parameters

    first : `pandas.DataFrame | Mapping[str, pandas.DataFrame]`
        The uses in the first text, or a dictionary with the uses in each of several periods, in the
        order of time. A DataFrame of your own needs the columns `word` and `vector`, an array of
        one size for each use, and `control_of` if there are control words: the word whose control a
        use is, or an empty string. All vectors are of the same layer of the same biLM.
    second : `pandas.DataFrame`, optional
        The uses in the second text. Leave it out if `first` is a dictionary.
    n_clusters : `int`, optional
        See `clusters`. A word's uses in both texts are clustered together.
    seed : `int`, optional (default = `0`)
        The seed of the clusters and of the permutations.
    measures : `Iterable[str]`, optional
        The scores to compute, of `"apd"`, `"prt"` and `"jsd"`. By default the first two, and also
        `"jsd"` if `labels` or `n_clusters` is given. Without `labels`, it takes about a second per
        word to find clusters.
    permutations : `int`, optional (default = `0`)
        Number of random divisions of a word's uses for the p-values `apd_p`, `prt_p` and `jsd_p`,
        which test whether two parts of one corpus differ. Two corpora nearly always do, also for
        words whose meaning did not change. With 0, there are no such p-values.
    min_uses : `int`, optional (default = `1`)
        Least number of uses in each text. A word with fewer has no scores.
    labels : `str`, optional
        Name of a column of the uses that has the labels of clusters of your own for `"jsd"`, such
        as numbers or strings; 1 and "1" are the same. The label -1 (noise in HDBSCAN) and missing
        values are no cluster: `"jsd"` leaves these uses out.

    # Returns

    `pandas.DataFrame`
        A row for each word, with the columns `word`, `first` and `second`, the numbers of its uses,
        the scores `apd`, `prt` and `jsd`, the number of `clusters`, and the p-values `apd_p`,
        `prt_p` and `jsd_p`, as far as they were asked for. Scores and p-values of a word with too
        few uses are NaN. For several periods there are such rows for each pair of consecutive
        periods, whose names are in the columns `from` and `to`.

        If the uses include those of control words, there are also `control_of`; `controls`, the
        number of a word's controls that have all scores; and for each measure, such as `apd`,
        `apd_percentile`, the percentage of these controls with a lower score, and `apd_control_p`,
        (1 + the number of controls with a score at least as high) / (1 + `controls`). They are NaN
        for a word without controls, such as a control word.

        The p-value `apd_p` is (1 + k) / (1 + `permutations`): the word's uses are divided between
        the two texts at random, and k is how often the score is at least as high as the observed
        one. It depends on the word, its uses and the seed, not on the other words or measures.

    # Raises

    `InputError`
        If it is known that the vectors are of different layers, biLMs or precisions, or those of
        raw text and of tokens, or their sizes differ; or if the control words differ, a column is
        missing, or a parameter is invalid.
    """
    if measures is None:
        has_clusters = labels is not None or n_clusters is not None
        measures = _MEASURES if has_clusters else ("apd", "prt")
    is_one = isinstance(measures, str) or not isinstance(measures, Iterable)
    names: list[Any] = list(dict.fromkeys([measures] if is_one else measures))
    for name in names:
        check_choice("measures", name, _MEASURES)
    seed = check_count("seed", seed, least=0)
    permutations = check_count("permutations", permutations, least=0)
    min_uses = check_count("min_uses", min_uses)
    if labels is not None and n_clusters is not None:
        fail("n_clusters", "none, because labels has the clusters", n_clusters)
    settings = _Settings(names, permutations, n_clusters, seed, labels, min_uses)
    several = isinstance(first, Mapping)
    if several == (second is not None) or (several and len(first) < 2):
        fail("second", "a DataFrame, or none after a dictionary of two or more", second)
    if not several:
        return _compare(first, second, settings)
    pairs = {}
    for old, new in pairwise(first):
        with named(f"{old}, {new}"):
            pairs[old, new] = _compare(first[old], first[new], settings)
    rows = needed("pandas").concat(pairs, names=["from", "to"])
    return rows.reset_index(["from", "to"]).reset_index(drop=True)


class _Settings(NamedTuple):
    """The parameters of `changes`."""

    measures: list[str]
    permutations: int
    n_clusters: int | None
    seed: int
    labels: str | None
    min_uses: int


def _compare(first: Any, second: Any, settings: _Settings) -> Any:
    """`changes` between two texts."""
    for name, uses in (("first", first), ("second", second)):
        _check_columns(name, uses, *filter(None, ("word", VECTOR, settings.labels)))
        if uses["word"].isna().any():  # pandas reads the word *null* as a missing value
            fail(f"{name}: word", "a word for each use", "a missing value")
    both = first.attrs.keys() & second.attrs.keys() - {COMPUTED_WITH}  # earlier files say less
    if differ := [key for key in sorted(both) if first.attrs[key] != second.attrs[key]]:
        one, other = ({key: x.attrs[key] for key in differ} for x in (first, second))
        fail("second", f"vectors as in the first, {one}", other)
    pandas, rows, n_first = needed("pandas"), [], Counter(first["word"])
    uses = pandas.concat([first, second])
    control_of = uses["control_of"].astype(object).fillna("") if "control_of" in uses else ""
    uses = uses.assign(control_of=control_of)
    for word, own in uses.groupby("word", sort=False, observed=True):
        if len(of := own["control_of"].unique()) > 1:
            fail("control_of", "one value for each word", {word: [*of]})
        n, m = n_first[word], len(own) - n_first[word]
        scores = _scores(word, own, n, settings) if min(n, m) >= settings.min_uses else {}
        rows.append({"word": word, "control_of": of[0], "first": n, "second": m, **scores})
    columns = ["word", "control_of", "first", "second", *settings.measures]
    columns += ["clusters"] if "jsd" in columns else []
    columns += [f"{measure}_p" for measure in settings.measures] if settings.permutations else []
    table = pandas.DataFrame(rows, columns=columns)
    if table["control_of"].eq("").all():
        return table.drop(columns="control_of")
    return _with_ranks(table, settings.measures)


def _with_ranks(table: Any, measures: list[str]) -> Any:
    """Add the columns that compare the scores of each word with those of its controls."""
    scored = table.dropna(subset=measures)
    places = scored.groupby("control_of").indices
    controls = [scored.iloc[places.get(word, [])] for word in table["word"]]
    table["controls"] = list(map(len, controls))
    for measure in measures:
        scores = [x[measure] for x in (table, *controls)]
        # PRT jumps to negative values where the cosine is negative; see `_negative_cosine`.
        own, *others = (-1 / x for x in scores) if measure == "prt" else scores
        n = table["controls"].where((table["controls"] > 0) & own.notna())
        n_as_high = np.array([(x >= score - ROUNDING).sum() for score, x in zip(own, others)])
        table[f"{measure}_percentile"] = 100 * (n - n_as_high) / n
        table[f"{measure}_control_p"] = (1 + n_as_high) / (1 + n)
    return table


def _check_columns(name: str, uses: Any, *columns: str) -> None:
    """Raise an `InputError` that names the columns that uses lack."""
    found = [*getattr(uses, "columns", ())]
    if missing := [column for column in columns if column not in found]:
        fail(name, f"a DataFrame with the columns {', '.join(map(str, missing))}", found or uses)


def _scores(word: str, uses: Any, n_first: int, settings: _Settings) -> dict[str, float]:
    """The columns of a word. The first `n_first` uses are those in the first text."""
    measures, permutations, n_clusters, seed, column, _ = settings
    vectors, scores = vectors_of(uses), {}
    features = {"apd": _unit(vectors), "prt": vectors}
    if "jsd" in measures:
        labels = clusters(vectors, n_clusters, seed) if column is None else uses[column]
        features["jsd"] = _members(labels)
        scores["clusters"] = features["jsd"].any(axis=0).sum()
    for measure in measures:
        random = np.random.default_rng([*f"{seed} {word}".encode()])
        test = _permutation_test(measure, features[measure], n_first, permutations, random)
        scores[measure], scores[f"{measure}_p"] = test
    if "prt" in scores:
        scores["prt"] = _inverse(scores["prt"])
    return scores


def _permutation_test(
    measure: str, features: np.ndarray, n_first: int, permutations: int, random: np.random.Generator
) -> tuple[float, float]:
    """
    The score of the first `n_first` uses and the others, and its p-value. `features`: what
    `_MEASURES` names, shape `(n, size)`.
    """
    n, total = len(features), features.sum(axis=0)

    def scores(is_first: np.ndarray) -> np.ndarray:
        """The scores if these uses were in the first text, 0 or 1 of shape `(N, n)`."""
        sums = is_first @ features  # (N, size)
        return _MEASURES[measure](sums / n_first, (total - sums) / (n - n_first))

    is_first = (np.arange(n) < n_first).astype(np.float64)[None]
    observed, n_as_large = scores(is_first).item(), 0
    for done in range(0, permutations, AT_ONCE):
        rows = np.repeat(is_first, min(AT_ONCE, permutations - done), axis=0)
        lower = scores(random.permuted(rows, axis=1)) < observed - ROUNDING
        n_as_large += int((~lower).sum())  # also NaN
    return observed, np.nan if np.isnan(observed) else (1 + n_as_large) / (1 + permutations)


def nearest(uses: Any, vector: np.ndarray, k: int = 5) -> Any:
    """
    At most `k` of the uses, those whose vectors have the highest cosine with `vector`, the nearest
    first, with a column `cosine`. A token, or a phrase, counts once in equal sentences. `vector`:
    shape `(2P,)`. Raises an `InputError` if it has another size than those of the uses.
    """
    k = check_count("k", k)
    _check_columns("uses", uses, "text", "position")
    vectors, shape = vectors_of(uses), np.shape(vector)  # of a word ()
    if shape != vectors.shape[1:]:
        fail("vector", f"the shape {vectors.shape[1:]} of a use's vector", shape)
    compared = uses.assign(cosine=_unit(vectors) @ _unit(np.asarray(vector, np.float64)))
    # A phrase may begin at the place of a listed word.
    names = ["text", "position", *compared.columns.intersection(["token"])]
    return compared.drop_duplicates(names).nlargest(k, "cosine")


def principal_components(vectors: np.ndarray) -> np.ndarray:
    """
    The first two principal components of vectors, shape `(n, 2)`. Raises an `InputError` for one
    vector, which has none.
    """
    if len(vectors) < 2:
        fail("vectors", "at least two, as one has no principal components", len(vectors))
    centered = vectors - vectors.mean(axis=0)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T


def picture(uses: Any, groups: Any) -> Any:
    """
    A matplotlib figure of the `principal_components` of uses. `groups`: the name of the group of
    each use, such as its period or its cluster, which gives it its color. Raises an `InputError` if
    there are fewer than two uses, or not as many groups as uses.
    """
    figure = needed("matplotlib.figure").Figure(layout="constrained")
    panel, groups = figure.subplots(), np.asarray(groups)
    points = principal_components(vectors_of(uses))
    if groups.shape != (len(points),):
        fail("groups", f"one for each of the {len(points)} uses", groups.shape)
    numbers = needed("pandas").Series(range(len(points)))
    for group, own in numbers.groupby(groups, dropna=False):  # missing names are a group too
        panel.scatter(*points[own].T, s=12, alpha=0.7, label=str(group))
    panel.set(xlabel="first principal component", ylabel="second principal component")
    panel.legend()
    return figure


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _apd(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    # The mean of the products of all pairs is the product of the means.
    return 1 - (p * q).sum(axis=-1)


def _negative_cosine(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    # It has the order of PRT, which jumps to negative values where the cosine is negative.
    return -(_unit(p) * _unit(q)).sum(axis=-1)


def _inverse(negative_cosine: Any) -> float:
    with np.errstate(divide="ignore"):
        return float(np.divide(1, 0 - negative_cosine))  # of 0.0 and -0.0 the same


def _jsd(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NaN if no use is in a cluster
        p, q = (x / x.sum(axis=-1, keepdims=True) for x in (p, q))
    return _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2


_MEASURES = {"apd": _apd, "prt": _negative_cosine, "jsd": _jsd}
"""
What each measure computes from the means over the uses of both texts, shape `(..., size)`: the mean
unit vectors for APD, the mean vectors for PRT, and the shares of the clusters for JSD. The larger
the result, shape `(...)`, the more the texts differ.
"""


def _entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=-1)


def _members(labels: Iterable[Any]) -> np.ndarray:
    """Which uses are in which cluster, 0 or 1 of shape `(n, number of clusters)`."""
    names = needed("pandas").Series([*labels], dtype=object)
    # A table that was read from CSV may have 1.0, "1" or "1.0" where the other has 1.
    names = names.map(lambda x: str(int(x) if is_whole(x) else x), na_action="ignore")
    names = names.str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)
    numbers = names.mask(names == "-1").factorize()[0]  # -1 for missing values
    return (numbers[:, None] == np.arange(numbers.max(initial=0) + 1)).astype(np.float64)
