"""
Adds the accuracy of a language model on the test suites of Hu et al. (2020) to the rows of the
results page, `experiments/results/syntaxgym.jsonl`:

    python -m elmo_plugin score --suites suites/*.json --raw --pretrained small --format jsonl \\
        > scores.jsonl
    python -m experiments.syntaxgym --bilm small --scores scores.jsonl
    python -m experiments.syntaxgym --published syntaxgym_results_*.csv

A row has the number of items of a suite that a model has right: by all formulas of the suite
(`right`), and by the first one (`first`). The authors publish, for each item, whether each of their
models has it right, by the first formula; their models in several seeds have a row for each.
`python -m experiments.report` then writes the page.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from elmo_plugin.files.atomic_write import atomic_write
from experiments import new_parser, run
from experiments.markdown import table
from experiments.report.pictures import COLORS, save
from experiments.rows import RESULTS, Row, known_rows, read_rows

FILE = RESULTS / "syntaxgym.jsonl"
PUBLISHED = {
    "vanilla": "LSTM",
    "ordered-neurons": "ON-LSTM",
    "grnn": "GRNN",
    "jrnn": "JRNN",
    "transformer-xl": "Transformer-XL",
    "rnng": "RNNG",
    "gpt-2-pretrained": "GPT-2",
    "gpt-2-xl-pretrained": "GPT-2 XL",
}
LEFT_OUT = re.compile("fgd-embed[34]|nn-nv")
"""The suites that the authors' notebook leaves out."""
CIRCUITS = {
    "number": "agreement",
    "npi": "licensing",
    "reflexive": "licensing",
    "mvrr": "garden-path effects",
    "npz": "garden-path effects",
    "subordination": "gross syntactic expectation",
    "center": "center embedding",
    "fgd": "long-distance dependencies",
    "cleft": "long-distance dependencies",
}
"""By the beginning of a suite's name, in their order."""
SAMPLES, SEED = 10_000, 0

Accuracies = dict[str, dict[str, float]]
"""Percentages by model and suite."""


def rows_of_scores(bilm: str, scores: Iterable[Row]) -> list[Row]:
    """The rows of a biLM from those that the command `score` prints."""
    return [
        {"model": bilm, "suite": row["name"], "items": row["items"]}
        | {
            key: round(row["items"] * row[column] / 100)
            for key, column in (("right", "accuracy"), ("first", "formula_1"))
        }
        for row in scores
        if row["level"] == "suite"
    ]


def rows_of_published(files: Iterable[Path]) -> list[Row]:
    """The rows of the authors' models, from files with a line for each item."""
    found: dict[tuple[str, str], list[bool]] = {}
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                found.setdefault((line["model"], line["suite"]), []).append(
                    {"True": True, "False": False}[line["correct"]]
                )
    rows = []
    for (model, suite), correct in sorted(found.items()):
        name, _, seed = model.partition("_")
        row = {"model": name, "seed": seed.strip("_"), "suite": suite, "items": len(correct)}
        rows.append(row | {"first": sum(correct)})
    return rows


def accuracies(rows: Iterable[Row], key: str) -> Accuracies:
    """The accuracy of each model on each suite, the mean over its seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if key in row:
            of_model = found.setdefault(row["model"], {})
            of_model.setdefault(row["suite"], []).append(100 * row[key] / row["items"])
    return {
        model: {suite: float(np.mean(values)) for suite, values in suites.items()}
        for model, suites in found.items()
    }


def circuit_of(suite: str) -> str:
    return CIRCUITS[re.split("[-_]", suite)[0]]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean over suites, by resampling the suites."""
    random = np.random.default_rng(SEED)
    numbers = random.integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.percentile(np.array(values)[numbers].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def items_interval(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """
    The 95 % interval of the mean accuracy over given suites, whose items are a sample. `counts`:
    the right items and all items of each. An accuracy is drawn from its posterior distribution
    after Jeffreys' prior, which also serves for suites with all or no items right.
    """
    random = np.random.default_rng(SEED)
    right, n = np.array(counts).T
    samples = random.beta(right + 0.5, n - right + 0.5, size=(SAMPLES, len(counts)))
    low, high = 100 * np.percentile(samples.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def with_interval(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{np.mean(values):.1f} ({low:.1f} to {high:.1f})"


def sections(folder: Path, pictures: Path) -> dict[str, str]:
    """
    The sections of the results page by title, if the folder of rows has those of test suites. The
    picture is written into the other folder.
    """
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    found = accuracies(rows, "first")
    chosen = [suite for suite in next(iter(found.values())) if not LEFT_OUT.match(suite)]
    means = {model: float(np.mean([found[model][x] for x in chosen])) for model in found}
    order = sorted(found, key=lambda model: means[model])
    title = f"Mean accuracy on {len(chosen)} of the test suites of Hu et al. (2020)"
    values = "; ".join(f"{_name(model)} {means[model]:.1f} %" for model in order)
    save(picture(found, order, chosen), pictures / "syntaxgym.svg", title, values)
    parts = [f"![{title}: {values}](results/syntaxgym.svg)"]
    parts.append(models_table(found, order, chosen, accuracies(rows, "right")))
    by_circuit = circuits_table(rows, found, order)
    return {
        "Test suites (SyntaxGym)": "\n\n".join(parts),
        "SyntaxGym by circuit and suite": f"{by_circuit}\n\n{suites_table(rows, found, order)}",
    }


def _name(model: str) -> str:
    return PUBLISHED.get(model, f"`{model}`")


def models_table(found: Accuracies, order: list[str], chosen: list[str], by_all: Accuracies) -> str:
    """A row for each model, with how much better each biLM is than it."""
    bilms = [model for model in order if model not in PUBLISHED]
    lines: list[list[object]] = []
    for model in order:
        line: list[object] = [_name(model), with_interval([found[model][x] for x in chosen])]
        for bilm in bilms:
            gains = [found[bilm][x] - found[model][x] for x in chosen]
            line.append("" if bilm == model else with_interval(gains))
        line.append(float(np.mean(list(found[model].values()))))
        strict = list(by_all.get(model, {}).values())
        lines.append([*line, float(np.mean(strict)) if strict else ""])
    n, n_all = len(chosen), len(next(iter(found.values())))
    heads = ["", f"{n} suites", *(f"`{bilm}` minus it" for bilm in bilms)]
    return table([*heads, f"all {n_all}", f"all {n_all}, every formula"], lines)


def circuits_table(rows: Iterable[Row], found: Accuracies, order: list[str]) -> str:
    """A row for each circuit, with the mean over its suites that the authors count."""
    lines: list[list[object]] = []
    for circuit in dict.fromkeys(CIRCUITS.values()):
        chosen = [suite for suite in found[order[0]] if not LEFT_OUT.match(suite)]
        own = [suite for suite in chosen if circuit_of(suite) == circuit]
        if own:
            lines.append([circuit, len(own), *_cells(rows, found, order, own)])
    return table(["circuit", "suites", *map(_name, order)], lines)


def suites_table(rows: Iterable[Row], found: Accuracies, order: list[str]) -> str:
    """A row for each suite."""
    items = {row["suite"]: row["items"] for row in rows}
    lines: list[list[object]] = []
    for suite in sorted(items):
        name = suite.replace("_", " ") + " *" * bool(LEFT_OUT.match(suite))
        lines.append([name, items[suite], *_cells(rows, found, order, [suite])])
    return table(["suite", "items", *map(_name, order)], lines)


def _cells(
    rows: Iterable[Row], found: Accuracies, order: list[str], suites: list[str]
) -> Iterator[str]:
    """The mean over suites for each model, for the biLMs with the interval over items."""
    for model in order:
        text = f"{np.mean([found[model][suite] for suite in suites]):.0f}"
        if model not in PUBLISHED:
            own = [row for row in rows if row["model"] == model and row["suite"] in suites]
            low, high = items_interval([(row["first"], row["items"]) for row in own])
            text += f" ({low:.0f} to {high:.0f})"
        yield text


def picture(found: Accuracies, order: list[str], chosen: list[str]) -> Figure:
    """A bar for each model, the best last, with whiskers for the interval over suites."""
    figure = Figure(figsize=(7, 0.9 + 0.35 * len(order)), layout="constrained")
    panel = figure.subplots()
    for label, color, own in (("published", COLORS[0], False), ("this package", COLORS[2], True)):
        part = [model for model in order if (model not in PUBLISHED) == own]
        values = [[found[model][x] for x in chosen] for model in part]
        means = np.array([np.mean(x) for x in values])
        ends = np.array([interval(x) for x in values]).reshape(-1, 2).T
        places = [order.index(model) for model in part]
        errors = np.abs(ends - means)
        panel.barh(places, means, xerr=errors, ecolor="black", label=label, color=color)
        for place, mean in zip(places, means):
            panel.text(1, place, f"{mean:.1f}", color="white", va="center")
    panel.set_yticks(range(len(order)), [_name(model).strip("`") for model in order])
    panel.set_xlim(0, 100)
    panel.set_xlabel(f"mean accuracy on {len(chosen)} test suites, %")
    figure.legend(ncols=2, loc="outside upper center")
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--bilm", help="its name on the page")
    parser.add_argument("--scores", type=Path, help="what the command score printed for it")
    parser.add_argument("--published", type=Path, nargs="+", help="results of the authors' models")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    if (arguments.bilm is None) != (arguments.scores is None) or not (
        arguments.bilm or arguments.published
    ):
        parser.error("expected --bilm with --scores, or --published, or both")
    new = rows_of_published(arguments.published or [])
    if arguments.bilm:
        new += rows_of_scores(arguments.bilm, read_rows(arguments.scores))
    models = {row["model"] for row in new}
    kept = [row for row in known_rows(arguments.results) if row["model"] not in models]
    with atomic_write(arguments.results) as temporary:
        temporary.write_text("".join(json.dumps(row) + "\n" for row in (*kept, *new)))


if __name__ == "__main__":
    run("syntaxgym", main)
