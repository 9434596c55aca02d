"""
Compares the uses of words, as `Elmo.uses` and `read_uses` give them, and measures how much a word's
meaning changes between two texts. Vectors are an array of shape `(n, 2P)`, one for each use.

APD and PRT are those of Kutuzov and Giulianelli (2020, https://arxiv.org/abs/2005.00050). The
clusters and their JSD are those of Giulianelli et al. (2020, https://arxiv.org/abs/2004.14118).
"""

from typing import Any

import numpy as np

from elmo_plugin.checks import check_count, fail, needed
from elmo_plugin.elmo.results import COMPUTED_WITH
from elmo_plugin.elmo.uses import VECTOR

MOST_CLUSTERS = 10


def vectors_of(uses: Any) -> np.ndarray:
    """
    The vectors of the uses in a DataFrame, float64. Raises an `InputError` if it has none, or their
    sizes differ.
    """
    if not len(uses):
        fail("uses", "at least one", "none")
    if len(sizes := {len(vector) for vector in uses[VECTOR]}) > 1:
        fail("uses", "vectors of one size", sorted(sizes))
    return np.stack(uses[VECTOR]).astype(np.float64)


def average_pairwise_distance(first: np.ndarray, second: np.ndarray) -> float:
    """The mean cosine distance between a use of the first text and one of the second (APD)."""
    # The mean of the products of all pairs is the product of the means.
    return float(1 - _unit(first).mean(axis=0) @ _unit(second).mean(axis=0))


def prototype_distance(first: np.ndarray, second: np.ndarray) -> float:
    """The inverse of the cosine of the two mean vectors (PRT); at least 1 if it is positive."""
    return float(1 / (_unit(first.mean(axis=0)) @ _unit(second.mean(axis=0))))


def jensen_shannon_divergence(first: np.ndarray, second: np.ndarray) -> float:
    """
    The Jensen-Shannon divergence of two distributions over clusters in bits (JSD), from 0 to 1.
    `first`, `second`: the numbers of the clusters of the uses in each text.
    """
    n = 1 + max(first.max(), second.max())
    p, q = (np.bincount(labels, minlength=n) / len(labels) for labels in (first, second))
    return float(_entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2)


def clusters(vectors: np.ndarray, n_clusters: int | None = None, seed: int = 0) -> np.ndarray:
    """
    The number of the cluster of each use, from 0, by k-means on standardized vectors. By default,
    the number of clusters is the one from 2 to 10 with the highest silhouette score. There are at
    most as many as different vectors. Needs scikit-learn.
    """
    scaled = needed("sklearn.preprocessing").StandardScaler().fit_transform(vectors)

    def labels(n: int) -> np.ndarray:
        k_means = needed("sklearn.cluster").KMeans(n, n_init=10, random_state=seed)
        return k_means.fit_predict(scaled)

    n_different = len(np.unique(scaled, axis=0))
    if n_clusters is not None:
        check_count("n_clusters", n_clusters)
        return labels(min(n_clusters, n_different))
    most = min(MOST_CLUSTERS, n_different, len(scaled) - 1)
    if most < 2:
        return np.zeros(len(scaled), dtype=int)
    silhouette = needed("sklearn.metrics").silhouette_score
    return max(map(labels, range(2, most + 1)), key=lambda x: silhouette(scaled, x))


def changes(first: Any, second: Any, n_clusters: int | None = None, seed: int = 0) -> Any:
    """
    How much the use of each word differs between two texts.

    # Parameters

    first, second : `pandas.DataFrame`
        The uses in each text, with vectors of the same layer of the same biLM.
    n_clusters : `int`, optional
        See `clusters`. A word's uses in both texts are clustered together.
    seed : `int`, optional (default = `0`)
        The seed of the clusters.

    # Returns

    `pandas.DataFrame`
        A row for each word, with the columns `word`, `first` and `second`, the numbers of its uses,
        the scores `apd`, `prt` and `jsd`, and the number of `clusters`. The scores of a word
        without uses in one of the texts are NaN.

    # Raises

    `InputError`
        If it is known that the vectors are of different layers, biLMs or precisions, or those of
        raw text and of tokens, or their sizes differ.
    """
    both = first.attrs.keys() & second.attrs.keys() - {COMPUTED_WITH}  # earlier files say less
    if differ := [key for key in sorted(both) if first.attrs[key] != second.attrs[key]]:
        one, other = ({key: x.attrs[key] for key in differ} for x in (first, second))
        fail("second", f"vectors as in the first, {one}", other)
    columns = ["word", "first", "second", "apd", "prt", "jsd", "clusters"]
    rows = []
    for word in dict.fromkeys([*first["word"], *second["word"]]):
        uses = [frame[frame["word"] == word] for frame in (first, second)]
        row = [word, *map(len, uses)]
        if all(row[1:]):
            both = vectors_of(needed("pandas").concat(uses))
            a, b = np.split(both, row[1:2])
            row += [average_pairwise_distance(a, b), prototype_distance(a, b)]
            labels = clusters(both, n_clusters, seed)
            row += [jensen_shannon_divergence(labels[: len(a)], labels[len(a) :])]
            row += [len(np.unique(labels))]
        rows.append(row + [np.nan] * (len(columns) - len(row)))
    return needed("pandas").DataFrame(rows, columns=columns)


def nearest(uses: Any, vector: np.ndarray, k: int = 5) -> Any:
    """
    At most `k` of the uses, those whose vectors have the highest cosine with `vector`, the nearest
    first, with a column `cosine`. Equal sentences count once. `vector`: shape `(2P,)`. Raises an
    `InputError` if it has another size than those of the uses.
    """
    check_count("k", k)
    vectors, vector = vectors_of(uses), np.asarray(vector, np.float64)
    if vector.shape != vectors.shape[1:]:
        fail("vector", f"the shape {vectors.shape[1:]} of a use's vector", vector.shape)
    compared = uses.assign(cosine=_unit(vectors) @ _unit(vector))
    return compared.drop_duplicates(["text", "position"]).nlargest(k, "cosine")


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
    for group in np.unique(groups):
        panel.scatter(*points[groups == group].T, s=12, alpha=0.7, label=str(group))
    panel.set(xlabel="first principal component", ylabel="second principal component")
    panel.legend()
    return figure


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())
