"""
Draws speeds as multiples of AllenNLP's, next to the speed that the measured rate of matrix products
would permit, on a kind of processor in a file of `python -m benchmarks --json FILE`:

    python -m benchmarks.picture "AMD EPYC, AVX-512 with bf16" docs/pictures/speed.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.tables import RESULTS
from experiments.report.pictures import COLORS, save


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picture")
    parser.add_argument("kind", help="a kind of processor in the file")
    parser.add_argument("out", type=Path, help="the SVG file")
    parser.add_argument("--figures", type=Path, default=RESULTS, help="the file (%(default)s)")
    arguments = parser.parse_args()
    results = json.loads(arguments.figures.read_text("utf-8"))[arguments.kind]
    vectors = [r for r in results["embedding"]["vectors"] if r["initial_state"] == "carry"]
    works = {"vectors": vectors, "training": results["training"]["training"]}
    shown = "; ".join(
        f"{name}: {row['ours'] / row['allennlp']:.1f} times AllenNLP's speed, "
        f"{row['ours']:,.0f} tokens/s"
        for name, row in named(works).items()
    )
    save(ratios(works), arguments.out, "Speed compared with AllenNLP", shown)


def named(works: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {
        f"{work}, {row['model']}, {row['precision']}": row
        for work, found in works.items()
        for row in found
    }


def ratios(works: dict[str, list[dict[str, Any]]]) -> Figure:
    """Points for each kind of work, model and precision. AllenNLP's speed is 1."""
    rows = named(works)
    figure = Figure(figsize=(7.5, 1.2 + 0.35 * len(rows)), layout="constrained")
    panel = figure.subplots()
    ours = [row["ours"] / row["allennlp"] for row in rows.values()]
    rates = [ratio / row["share_of_limit"] for ratio, row in zip(ours, rows.values())]
    places = range(len(rows))
    panel.hlines(places, 1, rates, color="#cccccc", zorder=0)
    panel.plot([1] * len(rows), places, "o", color=COLORS[0], label="AllenNLP, fp32")
    panel.plot(ours, places, "D", color=COLORS[2], label="elmo_plugin")
    panel.plot(
        rates, places, "|", color="black", markersize=12, label="limit by matrix multiplications"
    )
    for place, ratio, rate, row in zip(places, ours, rates, rows.values()):
        text = f"{ratio:.1f} x: {row['ours']:,.0f} tokens/s"
        panel.annotate(text, (rate, place), (8, 0), textcoords="offset points", va="center", size=8)
    panel.set_yticks(places, list(rows))
    panel.set_xscale("log")
    panel.set_xlim(0.8, 4 * max(rates))  # room for the texts, which are right of all points
    panel.set_xticks([1, 2, 5, 10, 20])
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.minorticks_off()
    panel.invert_yaxis()
    panel.set_xlabel("speed as a multiple of AllenNLP's, logarithmic")
    figure.legend(ncols=3, loc="outside upper center")
    return figure


if __name__ == "__main__":
    main()
