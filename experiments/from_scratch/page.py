"""The sections of the results page, from the rows."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from experiments.markdown import table
from experiments.report.pictures import COLORS, save
from experiments.report.statistics import Summary
from experiments.rows import RESULTS, Row, known_rows

FILE = RESULTS / "from_scratch.jsonl"
SHOWN = {
    "elmo": "biLM",
    "words": "causal transformer, words",
    "pieces": "causal transformer, word pieces",
    "masked": "masked transformer, word pieces",
}
"""What tables call a model."""
SETTINGS = "tokens", "layers", "dropout", "rate"
MINUTES, PERPLEXITIES = (1, 2, 5, 10, 20, 50), (70, 100, 150, 200, 300, 600)
"""Where the picture has ticks."""
REACHED = "CPU minutes", "perplexity", "tags, %"


def sections(folder: Path, pictures: Path) -> dict[str, str]:
    """
    The sections of the results page by title, if the folder of rows has those of this file. The
    picture is written into the other folder.
    """
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    found, title = curves(rows), "A biLM and transformers, trained on the same small text"
    last = [(SHOWN[kind], n, points[-1]) for (n, kind), points in found.items()]
    lines = [[name, n, *_settings(x), *over_seeds(rows, x)] for name, n, x in last]
    heads = ["trained until its best result", *SETTINGS, *REACHED]
    shown = "; ".join(map(_described, lines))
    save(picture(found), pictures / "from_scratch.svg", title, shown)
    return {
        "From scratch": f"{table(heads, lines)}\n\n![{title}: {shown}](results/from_scratch.svg)",
        "From scratch by time": by_time(rows),
    }


def quality(row: Row) -> float:
    """How good a result is: minus its perplexity, or the accuracy of a masked transformer."""
    metrics = row["metrics"]
    return -metrics["perplexity"] if "perplexity" in metrics else metrics["accuracy"]


def curves(rows: Sequence[Row]) -> dict[tuple[int, str], list[Row]]:
    """
    The results of each kind of model on each size of the text that are better than all quicker
    ones, of any size, dropout and rate. Those of the first seed.
    """
    found: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
    kinds = list(SHOWN)
    first = [row for row in rows if row["settings"]["seed"] == 0]
    for row in sorted(first, key=lambda x: (kinds.index(x["settings"]["model"]), x["seconds"])):
        own = found[row["settings"]["tokens"], row["settings"]["model"]]
        if not own or quality(row) > quality(own[-1]):
            own.append(row)
    return dict(found)


def over_seeds(rows: Sequence[Row], last: Row) -> list[object]:
    """The CPU minutes of a row, and the means over the seeds that were measured at that time."""
    # Times of equal work vary by a fifth; the next measurement is at twice the time.
    alike = [
        row
        for row in rows
        if _model(row) == _model(last) and abs(math.log(row["seconds"] / last["seconds"])) < 0.25
    ]
    of_seeds = list({row["settings"]["seed"]: row for row in alike}.values())
    columns = [[row["metrics"].get(x) for row in of_seeds] for x in ("perplexity", "accuracy")]
    summaries = [Summary(x, len(x), of_seeds) if None not in x else "" for x in columns]
    return [f"{last['seconds'] / 60:.1f}", *summaries]


def picture(found: Mapping[tuple[int, str], Sequence[Row]]) -> Figure:
    """Perplexity and accuracy by time, a panel for each and a line for each of the `curves`."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for (n_tokens, kind), points in found.items():
        color = COLORS[list(SHOWN).index(kind) + 1]
        style = "o-" if n_tokens == max(n for n, _ in found) else "s--"
        label = f"{SHOWN[kind]}, {n_tokens / 1e6:.1f} M tokens"
        for panel, metric in zip(panels, ("perplexity", "accuracy")):
            values = [row["metrics"].get(metric, math.nan) for row in points]
            minutes = [row["seconds"] / 60 for row in points]
            panel.plot(minutes, values, style, color=color, markersize=4, label=label)
    panels[0].set_ylabel("perplexity of held-out words")
    panels[0].set_yscale("log")
    panels[0].set_yticks(PERPLEXITIES, map(str, PERPLEXITIES))
    panels[1].set_ylabel("tags, %")
    for panel in panels:
        panel.set_xlabel("CPU minutes on one thread")
        panel.set_xscale("log")
        panel.set_xticks(MINUTES, map(str, MINUTES))
        panel.minorticks_off()
    figure.legend(*panels[1].get_legend_handles_labels(), ncols=2, loc="outside upper center")
    return figure


def _model(row: Row) -> tuple[object, ...]:
    return row["settings"]["model"], row["settings"]["tokens"], *_settings(row)


def _settings(row: Row) -> tuple[str, str, str]:
    of = row["settings"]
    rate = f"{of['rate']:g}" if "rate" in of else ""
    return f"{of['layers']} x {of['dim']}", f"{of['dropout']:g}", rate


def _described(line: Sequence[object]) -> str:
    reached = zip(REACHED, map(str, line[-len(REACHED) :]))
    return f"{line[0]}, {line[1]:,} tokens: " + ", ".join(f"{name} {x}" for name, x in reached if x)


def by_time(rows: Sequence[Row]) -> str:
    """A line for each result, in the order of models and of their times."""
    lines = []
    for kind, name in SHOWN.items():
        own = [row for row in rows if row["settings"]["model"] == kind]
        for row in sorted(own, key=lambda x: (x["settings"]["tokens"], _settings(x), x["seconds"])):
            of, metrics = row["settings"], row["metrics"]
            line = [name, of["tokens"], *_settings(row), of["seed"], metrics["epochs"]]
            reached = row["seconds"] / 60, metrics.get("perplexity", ""), metrics["accuracy"]
            lines.append([*line, *reached, row["processor"].replace("(R)", "")])
    return table(["model", *SETTINGS, "seed", "epochs", *REACHED, "processor"], lines)
