"""SVG pictures, reproducible byte for byte, with a title and a description for screen readers."""

import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from elmo_plugin.files.atomic_write import atomic_write
from experiments.report.statistics import NOT_IN_GRID, Summary

STYLE: dict[Any, str] = {
    "svg.hashsalt": "elmo_plugin",
    "svg.fonttype": "path",
    "font.family": "sans-serif",
}
COLORS = ("#666666", "#56b4e9", "#d55e00", "#009e73", "#cc79a7")
"""Gray for what others or no model give, and four colors of Okabe and Ito, which people with any
color vision can tell apart."""
LABEL: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "size": 7}
"""The label of a bar, to the right of the point that it annotates."""


def save(figure: Figure, file: Path, title: str, description: str) -> None:
    svg = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(svg, format="svg", metadata={"Date": None})
    head, start, rest = svg.getvalue().partition("<svg ")
    attributes, end, content = rest.partition(">")
    texts = f"\n <title>{escape(title)}</title>\n <desc>{escape(description)}</desc>"
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as temporary:
        described = f'{head}{start}role="img" {attributes}{end}{texts}{content}'
        temporary.write_text(described, "utf-8")


def values(bars: Mapping[str, Summary]) -> str:
    """The means of bars with their labels, for a description."""
    return ", ".join(
        f"{x.mean:.1f} {label}" + " (one seed)" * (len(x.values) == 1)
        for label, x in bars.items()
        if x.values
    )


def learning_curves(
    curves: Mapping[str, Mapping[str, Sequence[tuple[float, Summary]]]], file: Path
) -> None:
    """
    Draw one panel per task with one line per biLM.

    # Parameters

    curves : `Mapping[str, Mapping[str, Sequence[tuple[float, Summary]]]]`
        Fractions of the training data and results, by the task's title and the biLM's name.
    """
    n_panels = max(1, len(curves))
    figure = Figure(figsize=(4.5 * n_panels, 3.8), layout="constrained")
    panels = figure.subplots(1, n_panels, squeeze=False)[0]
    for panel, (title, lines) in zip(panels, curves.items()):
        for color, marker, (bilm, points) in zip(COLORS, "osD^v", lines.items()):
            found = [(100 * fraction, s) for fraction, s in points if s.values]
            panel.errorbar(
                [x for x, _ in found],
                [s.mean for _, s in found],
                yerr=[s.deviation or 0.0 for _, s in found],
                color=color,
                marker=marker,
                markersize=4,
                capsize=3,
                label=_role(bilm),
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g} %")
        panel.margins(x=0.1)
        panel.set_title(title, fontsize="medium")
        panel.set_ylabel("accuracy or F1, %")
        panel.legend()
    figure.supxlabel(
        "share of the training data\n"
        "Whiskers: standard deviation over seeds. The y axes differ and do not begin at 0.",
        fontsize="medium",
    )
    ends = (
        f"{title} with all data: {values({_role(bilm): x[-1][1] for bilm, x in lines.items()})}"
        for title, lines in curves.items()
    )
    save(figure, file, "Results with parts of the training data", "; ".join(ends))


def _role(bilm: str) -> str:
    return "without ELMo" if bilm == "none" else f"with {bilm}"


def gains(results: Mapping[str, Mapping[str, Summary]], file: Path) -> None:
    """
    Bars for each task, without ELMo and with each biLM, and whiskers for the standard deviation
    over seeds. The bar of a single seed is hollow. No task model has pretrained word vectors.

    # Parameters

    results : `Mapping[str, Mapping[str, Summary]]`
        By the task's title and the label of the bar.
    """
    labels = dict(zip(dict.fromkeys(x for bars in results.values() for x in bars), COLORS))
    n_rows = (len(labels) + 1) * len(results)  # one is empty between two tasks
    figure = Figure(figsize=(7, 1.6 + 0.16 * n_rows), layout="constrained")
    panel = figure.subplots()
    legend = [Patch(facecolor=color, label=label) for label, color in labels.items()]
    for n, bars in enumerate(results.values()):
        for k, (label, color) in enumerate(labels.items()):
            row, summary = n * (len(labels) + 1) + k, bars.get(label, NOT_IN_GRID)
            if not summary.values:
                panel.annotate(f"{label}: not measured", (0, row), color=COLORS[0], **LABEL)
                continue
            spread = summary.deviation
            fill = "white" if spread is None else color
            error = spread or 0.0
            panel.barh(row, summary.mean, 0.85, xerr=error, color=fill, edgecolor=color)
            panel.annotate(f"{summary.mean:.1f}", (summary.mean + error, row), **LABEL)
    if any(len(x.values) == 1 for bars in results.values() for x in bars.values()):
        legend.append(Patch(facecolor="white", edgecolor="black", label="hollow: one seed"))
    centers = [n * (len(labels) + 1) + (len(labels) - 1) / 2 for n in range(len(results))]
    panel.set_yticks(centers, list(results))
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(n_rows - 1, -1)
    panel.set_xlim(0, 105)
    figure.supxlabel(
        "F1 or accuracy on validation data, %. Whiskers: standard deviation over seeds.\n"
        "The task models are small and have no other pretrained vectors.",
        fontsize="medium",
    )
    figure.legend(handles=legend, ncols=2, loc="outside upper center")
    shown = "; ".join(f"{task}: {values(bars)}" for task, bars in results.items())
    save(figure, file, "Task models without and with ELMo", shown)
