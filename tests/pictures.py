"""A check of pictures that matplotlib draws."""

from itertools import combinations
from typing import Any
from unittest.mock import patch

from matplotlib.figure import Figure
from matplotlib.text import Text


def illegible(figure: Figure) -> list[str]:
    """
    The texts that a figure draws beyond its edges, and the pairs of texts that overlap, by the
    boxes of matplotlib's own layout.
    """
    drawn: list[Text] = []
    draw = Text.draw

    def record(text: Text, *arguments: Any, **options: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn.append(text)
        draw(text, *arguments, **options)

    figure.draw_without_rendering()  # the second drawing has the layout of the first
    with patch.object(Text, "draw", record):
        figure.draw_without_rendering()
    found = [(x.get_text(), x.get_window_extent()) for x in drawn]
    edges = figure.bbox
    cut = [
        text
        for text, box in found
        if box.x0 < edges.x0 or box.y0 < edges.y0 or box.x1 > edges.x1 or box.y1 > edges.y1
    ]
    pairs = combinations(found, 2)
    return cut + [f"{a} / {b}" for (a, one), (b, other) in pairs if one.overlaps(other)]
