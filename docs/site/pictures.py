"""
Draws the pictures of the documentation that explain how something works:

    python -m docs.site.pictures

They are `docs/pictures/*.svg`. The same code gives the same bytes.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from experiments.report.pictures import save

OUT = Path(__file__).parents[1] / "pictures"
BLUE, ORANGE, GREEN, GREY = "#cfe2f3", "#fce5cd", "#d9ead3", "#eeeeee"


def main() -> None:
    save(places(), OUT / "places.svg")
    save(windows(), OUT / "windows.svg")


def places() -> Figure:
    """From a sentence through the biLM to a task model, with both places of a mix."""
    figure, panel = canvas(9, 4.6)
    words = ["He", "threw", "the", "stick"]
    for k, word in enumerate(words):
        panel.text(0.75 + 1.1 * k, 0.2, word, ha="center")
        arrow(panel, (0.75 + 1.1 * k, 0.45), (0.75 + 1.1 * k, 0.75))
    box(panel, 0.2, 0.75, 4.4, 0.6, "character CNN and highway layer: $h_0$", GREY)
    for layer in (1, 2):
        y = 0.85 + 0.9 * layer
        box(panel, 0.2, y, 2.1, 0.6, f"forward LSTM {layer} →", BLUE)
        box(panel, 2.5, y, 2.1, 0.6, f"← backward LSTM {layer}", BLUE)
        for x in (1.25, 3.55):
            arrow(panel, (x, 1.35 if layer == 1 else 2.35), (x, y))
        panel.text(-0.1, y + 0.3, f"$h_{layer}$", ha="center", va="center")
    panel.text(2.4, 3.55, "biLM (one pass for all mixes)", ha="center", weight="bold")
    for name, y in (("input mix", 1.05), ("output mix", 2.95)):
        box(panel, 5.3, y - 0.35, 2.0, 0.7, f"{name}\n$\\gamma\\,\\sum_j s_j h_j$", ORANGE)
        arrow(panel, (4.6, 2.0), (5.3, y))
    box(panel, 8.0, 0.75, 3.0, 0.6, "task's word vectors; ELMo", GREEN)
    box(panel, 8.0, 1.75, 3.0, 0.6, "task's encoder", GREEN)
    box(panel, 8.0, 2.65, 3.0, 0.6, "its output; ELMo", GREEN)
    box(panel, 8.0, 3.6, 3.0, 0.6, "the rest of the task model", GREEN)
    for y in (1.35, 2.35, 3.25):
        arrow(panel, (9.5, y), (9.5, y + (0.4 if y == 1.35 else 0.3 if y == 2.35 else 0.35)))
    arrow(panel, (7.3, 1.05), (8.0, 1.05))
    arrow(panel, (7.3, 2.95), (8.0, 2.95))
    panel.text(9.5, 0.2, "elmo.input: the lower mix;  elmo.both: both mixes", ha="center", size=9)
    panel.set_xlim(-0.4, 11.3)
    panel.set_ylim(0, 4.4)
    return figure


def windows() -> Figure:
    """Rows of text that continue from window to window with their LSTM states."""
    figure, panel = canvas(9, 3.4)
    rows = (
        ("He threw the stick", ". ↵ The dog ran", "and found it . ↵"),
        ("Maps are drawn to", "a scale . ↵ Most", "of them lie . ↵ A"),
        ("↵ Rain fell . ↵ It", "stopped at noon .", "↵ Then the wind"),
    )
    for row, text in enumerate(rows):
        y = 2.0 - 0.8 * row
        panel.text(0.9, y + 0.25, f"row {row + 1}", ha="right", va="center")
        for window in range(3):
            x = 1.2 + 3.3 * window
            box(panel, x, y, 2.6, 0.5, text[window], BLUE)
            if window < 2:
                arrow(panel, (x + 2.6, y + 0.25), (x + 3.3, y + 0.25), color="#cc5500")
    for window in range(3):
        label = f"window {window + 1}: one step of training"
        panel.text(2.5 + 3.3 * window, 2.75, label, ha="center", size=9)
    panel.text(
        6.0,
        -0.1,
        "orange: the LSTM states of a row, without gradient; ↵: the end of a sentence",
        ha="center",
        size=9,
    )
    panel.set_xlim(0, 10.8)
    panel.set_ylim(-0.3, 3)
    return figure


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    panel = figure.subplots()
    panel.axis("off")
    return figure, panel


def box(
    panel: Axes, x: float, y: float, width: float, height: float, label: str, color: str
) -> None:
    style = "round,pad=0,rounding_size=0.08"
    panel.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor="#666666")
    )
    panel.text(x + width / 2, y + height / 2, label, ha="center", va="center", size=9.5)


def arrow(
    panel: Axes, start: tuple[float, float], end: tuple[float, float], color: str = "#444444"
) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": color})


if __name__ == "__main__":
    main()
