"""
The tables of docs/speed.md, docs/choose.md and benchmarks/README.md, from the figures in
benchmarks/results.json, which has those of one run of each part for each kind of processor:
`python -m benchmarks.tables` prints them.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.measure import Record
from experiments.markdown import table

RESULTS = Path(__file__).with_name("results.json")
COMPARED = {"AMD EPYC, AVX-512 with bf16": "EPYC", "Intel Xeon, AMX": "Xeon"}
"""The kinds of processors in the table of comparisons, and their columns."""

Results = dict[str, dict[str, Any]]


def read_results() -> Results:
    """The figures by kind of processor and part."""
    found: Results = json.loads(RESULTS.read_text("utf-8"))
    return found


def installed(results: Results) -> str:
    """Tokens per second of the installed models, of AllenNLP's `Elmo` and of a transformer."""
    found = installed_speeds(results)
    rows = {
        (model, by): f"`{model}`{', by AllenNLP' if by == 'allennlp' else ''}"
        for model, by, _ in found
    }
    return table(
        ["model", "one thread", "two threads"],
        [[text, *(rounded(found[*row, n]) for n in (1, 2))] for row, text in rows.items()],
    )


def installed_speeds(results: Results) -> dict[tuple[str, str, int], float]:
    """Tokens per second by model, program and number of threads."""
    [found] = [parts["installed"] for parts in results.values() if "installed" in parts]
    return {
        (row["model"], row["by"], row["threads"]): row["tokens_per_second"]
        for row in found["installed"]
    }


def compared(results: Results) -> str:
    """Tokens per second of training and vectors, next to AllenNLP's modules."""
    columns = [[name, "AllenNLP", "ratio"] for name in COMPARED.values()]
    found = [dict(speeds(results[kind])) for kind in COMPARED]
    rows = []
    for what in found[0]:
        cells: list[Any] = []
        for by_kind in found:
            row = by_kind[what]
            is_first = row.get("initial_state", "carry") == "carry"
            peer = f"{row['allennlp']:,.0f}" if is_first else ""
            cells += [f"{row['ours']:,.0f}", peer, f"{row['ratio']:.1f}"]
        rows.append([*what, *cells])
    return table(["", "model", *chain(*columns)], rows)


def speeds(parts: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Record]]:
    """The rows of training and of vectors, by what was measured and the model."""
    for row in parts["training"]["training"]:
        yield (f"training, {row['precision']}", row["model"]), row
    for row in parts["embedding"]["vectors"]:
        if row["initial_state"] != "zero":
            what = f'vectors, {row["precision"]}, `"{row["initial_state"]}"`'
            yield (what, row["model"]), row


def task_modules(results: Results) -> str:
    """How many times as fast as AllenNLP's the modules of tasks are, by the length of sentences."""
    found = results["Intel Xeon, AMX"]["task_modules"]["task_modules"]
    ratios = {(row["tokens"], row["module"]): row["ratio"] for row in found}
    modules, lengths = (dict.fromkeys(row[key] for row in found) for key in ("module", "tokens"))
    rows = [[n, *(f"{ratios[n, module]:.1f}" for module in modules)] for n in lengths]
    return table(["n", *(f"`{module}`" for module in modules)], rows)


def gpu_steps(results: Results) -> str:
    """Steps of training on a GPU."""
    rows = [
        [
            row["model"],
            row["rows"],
            row["precision"],
            f"{row['ms']:.0f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{100 * row['share_of_limit']:.2g} %",
            "" if row["allennlp_ms"] is None else f"{row['allennlp_ms']:.0f}",
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            f"{row['gib']:.1f}",
        ]
        for row in results["NVIDIA H100 80GB HBM3"]["gpu"]["training"]
    ]
    heads = ["model", "rows", "precision", "ms", "tokens/s", "share of the rate of matrix products"]
    return table([*heads, "AllenNLP's modules, ms", "ratio", "GiB"], rows)


def sentences(results: Results) -> list[str]:
    """The figures that are in sentences."""
    found = []
    for kind in COMPARED:
        for row in results[kind]["embedding"]["latency"]:
            ours, peer = row["ours_p50"], row["allennlp_p50"]
            found.append(f"{ours:.3g} ms")
            found.append(f"{peer:.3g}")
    scores = [row["ours"] for row in results["Intel Xeon, AMX"]["scores"]["scores"]]
    return [*found, "take {:,} tokens/s, and with entropies {:,}".format(*scores)]


def ranges(results: Results) -> dict[str, str]:
    """The smallest and the largest ratio to AllenNLP in fp32, for training and for vectors."""
    ratios: dict[str, list[float]] = {"training": [], "vectors": []}
    for kind in COMPARED:
        for (what, _), row in speeds(results[kind]):
            if row["precision"] == "fp32":
                ratios[what.partition(",")[0]].append(row["ratio"])
        for row in results[kind]["embedding"]["latency"]:
            ratios["vectors"].append(row["allennlp_p50"] / row["ours_p50"])
    found = installed_speeds(results)
    for (model, by, n), speed in found.items():
        if by == "ours":
            ratios["vectors"].append(speed / found[model, "allennlp", n])
    return {work: f"{min(of_work):.1f} to {max(of_work):.1f}" for work, of_work in ratios.items()}


def times_transformer(results: Results) -> str:
    """How many times as fast as the transformer `small` is, on one thread and on two."""
    found = installed_speeds(results)
    (name,) = {model for model, by, _ in found if by == "transformer"}
    ratios = [found["small", "ours", n] / found[name, "transformer", n] for n in (1, 2)]
    return f"{sum(ratios) / len(ratios):.1f}"


def rounded(speed: float) -> str:
    """Three digits, which is more than runs on one machine agree in."""
    return f"{float(f'{speed:.3g}'):,.0f}"


if __name__ == "__main__":
    figures = read_results()
    for made in (
        installed,
        compared,
        task_modules,
        gpu_steps,
        sentences,
        ranges,
        times_transformer,
    ):
        print(made(figures), end="\n\n")
