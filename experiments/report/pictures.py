"""SVG pictures, reproducible byte for byte."""

from collections.abc import Mapping, Sequence
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


def save(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as temporary, matplotlib.rc_context(STYLE):
        figure.savefig(temporary, format="svg", metadata={"Date": None})


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
        for bilm, points in lines.items():
            found = [(100 * fraction, s) for fraction, s in points if s.values]
            panel.errorbar(
                [x for x, _ in found],
                [s.mean for _, s in found],
                yerr=[s.deviation or 0.0 for _, s in found],
                marker="o",
                capsize=3,
                label="without ELMo" if bilm == "none" else f"with {bilm}",
            )
        panel.set_xscale("log")
        panel.set_title(title)
        panel.set_xlabel("training data, %")
        panel.legend()
    save(figure, file)


def gains(results: Mapping[str, Mapping[str, Summary]], file: Path) -> None:
    """
    Bars for each task, without ELMo and with each biLM, with the standard deviation over seeds.

    # Parameters

    results : `Mapping[str, Mapping[str, Summary]]`
        By the task's title and the label of the bar.
    """
    figure = Figure(figsize=(7, 1 + 0.5 * len(results)), layout="constrained")
    panel = figure.subplots()
    labels = list(dict.fromkeys(label for bars in results.values() for label in bars))
    height = 0.8 / len(labels)
    for k, label in enumerate(labels):
        found = {
            n + k * height: bars[label]
            for n, bars in enumerate(results.values())
            if label in bars and bars[label].values
        }
        means = [s.mean for s in found.values()]
        deviations = [s.deviation or 0.0 for s in found.values()]
        drawn = panel.barh(list(found), means, height, xerr=deviations, label=label, color=f"C{k}")
        panel.bar_label(drawn, fmt="%.1f", padding=4)
    panel.set_yticks([place + 0.4 - height / 2 for place in range(len(results))], list(results))
    panel.invert_yaxis()
    panel.set_xlim(0, 105)
    panel.set_xlabel("%; no task model has pretrained word vectors")
    panel.legend(ncols=len(labels), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    save(figure, file)


def mix_weights(weights: Mapping[str, Sequence[float]], file: Path) -> None:
    """
    Draw the layer weights s as stacked bars.

    # Parameters

    weights : `Mapping[str, Sequence[float]]`
        Weights by the name of the mix; the token layer comes first.
    """
    figure = Figure(figsize=(7, 1 + 0.35 * len(weights)), layout="constrained")
    panel = figure.subplots()
    names = list(weights)
    n_layers = max(map(len, weights.values()), default=0)
    for layer in range(n_layers):
        shares = [s[layer] if layer < len(s) else 0.0 for s in weights.values()]
        starts = [sum(s[:layer]) for s in weights.values()]
        label = "words" if layer == 0 else f"LSTM {layer}"
        panel.barh(names, shares, left=starts, label=label)
    panel.invert_yaxis()
    panel.set_xlabel("s")
    if n_layers:
        panel.legend(ncols=n_layers, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    save(figure, file)
