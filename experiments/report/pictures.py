"""SVG pictures, reproducible byte for byte, with a title and a description for screen readers."""

import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from elmo_plugin.files.atomic_write import atomic_write
from experiments.report.statistics import Summary

STYLE: dict[Any, str] = {
    "svg.hashsalt": "elmo_plugin",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
}
COLORS = ("#666666", "#56b4e9", "#d55e00", "#009e73", "#cc79a7")
"""Gray for what others or no model give, and four colors of Okabe and Ito, which people with any
color vision can tell apart."""
MIX_COLORS = ("#cccccc", *COLORS[1:])
"""Of layers, light enough for values in black."""


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
    return ", ".join(f"{x.mean:.1f} {label}" for label, x in bars.items() if x.values)


def learning_curves(
    curves: Mapping[str, Mapping[str, Sequence[tuple[float, Summary]]]], file: Path
) -> None:
    """
    Draw one panel per task with one line per biLM.

    # Parameters

    curves : `Mapping[str, Mapping[str, Sequence[tuple[float, Summary]]]]`
        Fractions of the training data and results, by the task's title and the biLM's name.
    """
    figure = Figure(figsize=(4.5 * max(1, len(curves)), 3.5), layout="constrained")
    panels = figure.subplots(1, max(1, len(curves)), squeeze=False)[0]
    for panel, (title, lines) in zip(panels, curves.items()):
        for color, marker, (bilm, points) in zip(COLORS, "osD^v", lines.items()):
            found = [(100 * fraction, s) for fraction, s in points if s.values]
            panel.errorbar(
                [x for x, _ in found],
                [s.mean for _, s in found],
                yerr=[s.deviation or 0.0 for _, s in found],
                color=color,
                marker=marker,
                capsize=3,
                label=_role(bilm),
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g} %")
        panel.set_title(title)
        panel.set_xlabel("share of the training data")
        panel.set_ylabel("accuracy or F1, %")
        panel.legend()
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
    over seeds. No task model has pretrained word vectors.

    # Parameters

    results : `Mapping[str, Mapping[str, Summary]]`
        By the task's title and the label of the bar.
    """
    figure = Figure(figsize=(7, 1 + 0.5 * len(results)), layout="constrained")
    panel = figure.subplots()
    labels = list(dict.fromkeys(label for bars in results.values() for label in bars))
    height = 0.8 / len(labels)
    for k, (label, color) in enumerate(zip(labels, COLORS)):
        found = {
            n + k * height: bars[label]
            for n, bars in enumerate(results.values())
            if label in bars and bars[label].values
        }
        means = [s.mean for s in found.values()]
        deviations = [s.deviation or 0.0 for s in found.values()]
        drawn = panel.barh(list(found), means, height, xerr=deviations, label=label, color=color)
        panel.bar_label(drawn, fmt="%.1f", padding=4)
        for n, bars in enumerate(results.values()):
            if label in bars and not bars[label].values:
                panel.text(1, n + k * height, "not measured", color="#999999", va="center", size=8)
    panel.set_yticks([place + 0.4 - height / 2 for place in range(len(results))], list(results))
    panel.invert_yaxis()
    panel.set_xlim(0, 105)
    panel.set_xlabel(
        "%, on validation data: mean and standard deviation over seeds.\n"
        "The task models are small and have no other pretrained vectors."
    )
    panel.legend(ncols=len(labels), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    shown = "; ".join(f"{task}: {values(bars)}" for task, bars in results.items())
    save(figure, file, "Task models without and with ELMo", shown)


def mix_weights(weights: Mapping[str, Sequence[float]], file: Path) -> None:
    """
    Draw the layer weights s as stacked bars.

    # Parameters

    weights : `Mapping[str, Sequence[float]]`
        Weights by the name of the mix; the word layer comes first.
    """
    figure = Figure(figsize=(7, 1 + 0.35 * len(weights)), layout="constrained")
    panel = figure.subplots()
    names = list(weights)
    n_layers = max(map(len, weights.values()), default=0)
    for layer in range(n_layers):
        shares = [s[layer] if layer < len(s) else 0.0 for s in weights.values()]
        starts = [sum(s[:layer]) for s in weights.values()]
        label = "word layer" if layer == 0 else f"LSTM {layer}"
        color = MIX_COLORS[layer % len(MIX_COLORS)]
        drawn = panel.barh(names, shares, left=starts, label=label, color=color)
        panel.bar_label(drawn, fmt="%.2f", label_type="center")
    panel.invert_yaxis()
    panel.set_xlabel("share of each layer")
    if n_layers:
        panel.legend(ncols=n_layers, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    shown = "; ".join(f"{name}: {', '.join(f'{x:.2f}' for x in s)}" for name, s in weights.items())
    save(figure, file, "Learned weights of the layers, from the word layer up", shown)
