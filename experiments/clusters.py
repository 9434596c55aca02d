"""
Draws the uses of a word in some texts by their text and their cluster:

    python -m experiments.clusters OUT.svg novels=NOVELS.hdf5 articles=ARTICLES.hdf5

The files are those of `python -m elmo_plugin uses`, for one word. Each use is a point, at the first
two principal components of its vector. The table that is printed has the size of each cluster; its
numbers are those of `clusters` in `elmo_plugin.corpora`. `--labels` are texts for the legend, one
for each cluster.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elmo_plugin.corpora import clusters, read_uses, vectors_of
from elmo_plugin.corpora.meanings import principal_components
from experiments import new_parser, run
from experiments.report.pictures import COLORS, save


def picture(
    points: np.ndarray, texts: Sequence[str], found: np.ndarray, labels: list[str]
) -> Figure:
    """
    A figure with the color of each point by its cluster and the shape by its text.

    # Parameters

    points : `np.ndarray`
        Shape `(n, 2)`.
    texts : `Sequence[str]`
        The name of the text of each point.
    found : `np.ndarray`
        The cluster of each point, from 0, shape `(n,)`.
    labels : `list[str]`
        The text of the legend for each cluster.
    """
    figure = Figure(figsize=(7, 5), layout="constrained")
    panel = figure.subplots()
    names = np.asarray(texts)
    shapes = dict(zip(dict.fromkeys(texts), "o^sDv"))
    colors = COLORS[1:]
    for name, shape in shapes.items():
        for cluster in range(len(labels)):
            x, y = points[(names == name) & (found == cluster)].T
            panel.scatter(x, y, s=14, alpha=0.7, marker=shape, color=colors[cluster])
    dots = [Line2D([], [], ls="", marker="o", color=c, label=x) for c, x in zip(colors, labels)]
    dots += [
        Line2D([], [], ls="", marker=shape, color=COLORS[0], label=f"from {name}")
        for name, shape in shapes.items()
    ]
    panel.set(xlabel="first principal component", ylabel="second principal component")
    figure.legend(handles=dots, ncols=2, loc="outside upper center")
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("out", type=Path, help="the SVG file")
    parser.add_argument("uses", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--labels", nargs="+", help="for each cluster, in its order")
    arguments = parser.parse_args()
    named = dict(x.split("=", 1) for x in arguments.uses)
    frames = [read_uses(file).assign(source=name) for name, file in named.items()]
    uses = pandas.concat(frames, ignore_index=True)
    vectors = vectors_of(uses)
    found = clusters(vectors)
    sizes = pandas.crosstab([uses["source"], uses["token"]], found, colnames=["cluster"])
    print(sizes.to_string())
    numbers = [f"cluster {k}" for k in range(found.max() + 1)]
    labels = arguments.labels or numbers
    if not len(labels) == len(numbers) < len(COLORS):
        raise ValueError(
            f"expected a label for each of at most {len(COLORS) - 1} clusters, "
            f"found {len(numbers)} clusters and {len(labels)} labels"
        )
    shown = "; ".join(
        f"{label}: " + ", ".join(f"{n} {name}" for name, n in counts.items())
        for label, counts in zip(
            labels,
            (uses["source"][found == k].value_counts(sort=False) for k in range(len(labels))),
        )
    )
    [word] = uses["word"].unique()
    about = f"Each point is a use, by the first two principal components of its vector. {shown}"
    figure = picture(principal_components(vectors), list(uses["source"]), found, labels)
    save(figure, arguments.out, f"Uses of {word} by cluster and by text", about)


if __name__ == "__main__":
    run("clusters", main)
