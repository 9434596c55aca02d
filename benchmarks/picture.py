"""
Draws speeds as bars next to the peer's and the machine's limit, from a file of `make bench`:

    python -m benchmarks.picture benchmarks.json docs/pictures/speed.svg
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.report.pictures import save


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picture")
    parser.add_argument("figures", type=Path, help="the JSON file of `python -m benchmarks`")
    parser.add_argument("out", type=Path, help="the SVG file")
    arguments = parser.parse_args()
    results = json.loads(arguments.figures.read_text("utf-8"))
    vectors = [r for r in results["embedding"]["vectors"] if r["initial_state"] == "carry"]
    works = {"vectors": vectors, "training": results["training"]["training"]}
    save(bars(works), arguments.out)


def bars(works: dict[str, list[dict[str, Any]]]) -> Figure:
    """Bars for each kind of work, model and precision. AllenNLP's speed is 1."""
    rows = {
        f"{work}, {row['model']}, {row['precision']}": row
        for work, found in works.items()
        for row in found
    }
    figure = Figure(figsize=(7.5, 0.8 + 0.4 * len(rows)), layout="constrained")
    panel = figure.subplots()
    names = list(rows)
    peers = [row["allennlp"] for row in rows.values()]
    limits = [row["limit"] / peer for row, peer in zip(rows.values(), peers)]
    ours = [row["ours"] / peer for row, peer in zip(rows.values(), peers)]
    drawn = panel.barh(
        names, limits, color="#eeeeee", edgecolor="#999999", label="the machine's limit"
    )
    panel.barh(names, ours, color="C1", height=0.5, label="elmo_plugin")
    panel.barh(names, [1] * len(names), color="C0", height=0.5, label="AllenNLP, fp32")
    tokens = [f"{row['ours']:,.0f} of {row['limit']:,.0f} tokens/s" for row in rows.values()]
    panel.bar_label(drawn, tokens, padding=4, size=8)
    panel.set_xlim(0, 1.45 * max(limits))  # room for the labels, which are right of all bars
    panel.invert_yaxis()
    panel.set_xlabel("speed, AllenNLP = 1")
    panel.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    return figure


if __name__ == "__main__":
    main()
