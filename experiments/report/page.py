"""The page of results as Markdown."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

from elmo_plugin.checks import InputError
from experiments.markdown import table
from experiments.report import paper, pictures
from experiments.report.statistics import (
    NOT_IN_GRID,
    NOT_RUN,
    Results,
    Summary,
    differences,
    error_reduction,
    significant,
)
from experiments.rows import Row

# A line of prose may end inside of braces. Other braces match without groups, as an error.
PLACEHOLDER = re.compile(r"\{(\w+)\s+(\w+)\}|\{[^{}]*\}")
PROSE = ("Results", "What the numbers say", "Documents as one sentence", "Method")
"""Sections without a table."""
BASELINE = "\n\nNo task model has pretrained word vectors, with or without ELMo."
"""What a picture of the grid's results compares, if it is so."""

MAIN = (
    "Results",
    "Minimal pairs (BLiMP)",
    "Test suites (SyntaxGym)",
    "Agreement",
    "Reading times",
    "Change of meaning",
    "From scratch",
    "Table 1: with and without ELMo",
)
"""The sections of the main results; all others are details."""
ORDER = (
    *MAIN,
    "Other biLMs",
    "What the numbers say",
    "BLiMP by phenomenon",
    "SyntaxGym by circuit and suite",
    "Agreement by construction",
    "Reading times by surprisal",
    "Change of meaning by layer",
    "From scratch by time",
    "The data, and the paper's results",
    "Table 2: layers",
    "Table 3: places",
    "Table 4: nearest neighbors in context",
    "Table 5: word sense disambiguation (WSD)",
    "Table 6: POS tagging",
    "Table 7: word in context (WiC)",
    "Figure 1: size of the training data",
    "Learned weights of the layers",
    "Documents as one sentence",
    "Method",
    "Cost",
)


def grid_sections(results: Results, pictures_folder: Path) -> dict[str, str]:
    """
    The tables of the grid's rows by title, for those of its tables that it has. The pictures are
    written into the folder.
    """
    pictures_folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, tuple[str, Callable[[Results], str]]] = {
        "Table 1: with and without ELMo": ("table 1", partial(_table_1, folder=pictures_folder)),
        "Other biLMs": ("table 1", _other_bilms),
        "The data, and the paper's results": ("table 1", _data),
        "Table 2: layers": ("table 2", _table_2),
        "Table 3: places": ("table 3", _table_3),
        "Figure 1: size of the training data": (
            "figure 1",
            partial(_figure_1, folder=pictures_folder),
        ),
        "Learned weights of the layers": ("table 1", _mixes),
        "Cost": ("table 1", _cost),
    }
    tables = results.grid.tables
    sections = {title: make(results) for title, (name, make) in makers.items() if name in tables}
    return {title: content for title, content in sections.items() if content}


def _role(bilm: str) -> str:
    return "without ELMo" if bilm == "none" else f"with `{bilm}`"


def _common_role(bilms: set[str]) -> str:
    return _role(*bilms) if len(bilms) == 1 else "with ELMo"


def page(sections: Mapping[str, str], text: Mapping[str, str], results: Results) -> str:
    """
    The whole page.

    # Parameters

    sections : `Mapping[str, str]`
        Tables by the title of their section.
    text : `Mapping[str, str]`
        Prose by the title of its section, which follows the section's table. `{TASK BILM}` in it is
        a mean of table 1.
    results : `Results`

    # Raises

    `ValueError`
        If `text` has a section that the page has not, or names what table 1 has not.
    """
    titles = sorted((*sections, *PROSE), key=ORDER.index)
    unknown = sorted(text.keys() - set(titles))
    if unknown:
        raise ValueError(f"text: expected sections of {titles}, found {unknown}")
    parts = []
    for title in titles:
        prose = _filled(text.get(title, ""), results)
        content = sections.get(title, "")
        if content or prose:
            level = "#" if title == "Results" else "##"
            parts += [f"{level} {title}", *filter(None, (content, prose))]
    return "\n\n".join(parts) + "\n"


def read_text(file: Path) -> dict[str, str]:
    """The sections of a file of prose, each of which starts with a line `# TITLE`."""
    parts = re.split(r"^# (.*)$", file.read_text("utf-8"), flags=re.MULTILINE)
    return {title: prose.strip() for title, prose in zip(parts[1::2], parts[2::2])}


def _table_1(results: Results, folder: Path) -> str:
    """The results without ELMo and with the biLMs that the table is about, and their gains."""
    tasks = _by_task(results, "table 1")
    models = [_models(results, bilms) for bilms in tasks.values()]
    facts = [results.grid.tasks[task] for task in tasks]
    titles = [f"{x['title']}, {'F1' if 'f1' in x['metric'] else x['metric']}" for x in facts]
    without = [results.baseline(bilms[names[0]]) for bilms, names in zip(tasks.values(), models)]
    bars = {title: {"without ELMo": summary} for title, summary in zip(titles, without)}
    columns: list[tuple[str, Sequence[object]]] = [("without ELMo", without)]
    gains: list[tuple[str, Sequence[object]]] = []
    first: tuple[str, list[Summary]] | None = None
    for names in zip(*models):  # of all tasks the same, or the last of each
        elmos = [
            results.summary(bilms[name]) if name in bilms else NOT_IN_GRID
            for bilms, name in zip(tasks.values(), names)
        ]
        for title, name, elmo in zip(titles, names, elmos):
            bars[title][f"with {name}"] = elmo
        if len(set(names)) > 1:
            titles = [f"{x}, {_role(name)}" for x, name in zip(titles, names)]
        role = _common_role(set(names))
        columns.append((role, elmos))
        pairs = list(zip(without, elmos))
        both = zip(differences(pairs), [_error_reduction(*pair) for pair in pairs])
        gains.append((f"gain {role}", ["; ".join(filter(None, dict.fromkeys(x))) for x in both]))
        if first is None:
            first = role.removeprefix("with "), elmos
        else:
            head = f"{role.removeprefix('with ')} over {first[0]}"
            gains.append((head, differences(list(zip(first[1], elmos)))))
    pictures.gains(bars, folder / "gains.svg")
    picture = f"![{_measured(bars)}](results/gains.svg){_baseline(results, 'table 1')}"
    tables = []
    for part in columns, gains:
        heads, cells = zip(("task", titles), *part)
        tables.append(table(heads, zip(*cells)))
    return "\n\n".join([picture, *tables])


def _baseline(results: Results, name: str) -> str:
    """`BASELINE`, unless a config of this table loads a file of vectors."""
    configs = (json.dumps(cell.config) for cell in results.grid.tables[name])
    return "" if any('"pretrained_file": "' in config for config in configs) else BASELINE


def _measured(bars: Mapping[str, Mapping[str, Summary]]) -> str:
    """What a picture of the bars shows, by the task's title and the label, without the values."""
    labels = dict.fromkeys(label for shown in bars.values() for label in shown)
    counts = {x: sum(bool(y[x].values) for y in bars.values() if x in y) for x in labels}
    parts = [f"{x} on {n}" if n < len(bars) else x for x, n in counts.items() if n]
    return f"Results of {len(bars)} tasks, as in the table: {', '.join(parts)}"


def _models(results: Results, bilms: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """
    The biLMs that table 1 is about: those of the grid's `columns` that have rows, and at least one
    of them. `bilms`: the settings of a task.
    """
    tasks = _by_task(results, "table 1").values()
    named = [name for name in results.grid.columns if any(name in found for found in tasks)]
    with_rows = [
        name
        for name in named
        if any(results.summary(found[name]).values for found in tasks if name in found)
    ]
    return with_rows or named[:1] or list(bilms)[-1:]


def _data(results: Results) -> str:
    """What each task of table 1 was trained on, and the paper's table 1."""
    tasks = _by_task(results, "table 1")
    has_published = any(task in paper.BASELINE_AND_ELMO for task in tasks)
    lines: list[list[object]] = []
    for task, bilms in tasks.items():
        summaries = [results.summary(settings) for settings in bilms.values()]
        facts = results.grid.tasks[task]
        lines.append([facts["title"], facts["data"], _size(summaries)])
        if has_published:
            published = paper.BASELINE_AND_ELMO.get(task)
            reduction = f"{error_reduction(*published):.1f} %" if published else ""
            lines[-1] += ["{} → {}".format(*published) if published else "", reduction]
    columns = ["task", "data", "training examples"]
    columns += ["the paper", "its error reduction"] if has_published else []
    return table(columns, lines)


def _other_bilms(results: Results) -> str:
    """
    A table for each biLM that table 1 is not about: its own gain, and what the first one that it is
    about adds.
    """
    tasks = _by_task(results, "table 1")
    found: dict[str, dict[str, tuple[Summary, Summary, Summary]]] = {}  # by biLM and task
    firsts = set()
    for task, bilms in tasks.items():
        models = _models(results, bilms)
        firsts.add(models[0])
        for name, settings in bilms.items():
            if name not in ("none", *models, *results.grid.columns):
                found.setdefault(name, {})[_title(results, task)] = (
                    results.baseline(settings),
                    results.summary(settings),
                    results.summary(bilms[models[0]]),
                )
    first_name = _common_role(firsts).removeprefix("with ")
    tables = []
    for name, summaries in found.items():
        none, other, with_first = zip(*summaries.values())
        gains, more = differences([*zip(none, other)]), differences([*zip(other, with_first)])
        columns = ["task", _role(name), "gain over none", f"gain of {first_name} over it"]
        tables.append(table(columns, [list(line) for line in zip(summaries, other, gains, more)]))
    return "\n\n".join(tables)


def _table_2(results: Results) -> str:
    found = {cell.settings["layers"] for cell in results.grid.tables["table 2"]} - {None}
    lambdas = sorted((value for value in found if not isinstance(value, str)), reverse=True)
    layers: dict[Any, str] = {"top": "last layer only"}
    layers |= {value: f"all, λ = {value}" for value in lambdas}
    layers |= {"average": "plain average", "words": "words only"}
    return _comparison(results, "table 2", "layers", layers, paper.LAYERS)


def _table_3(results: Results) -> str:
    places = {"input": "input", "both": "input and output", "output": "output"}
    return _comparison(results, "table 3", "place", places, paper.PLACES)


def _comparison(
    results: Results,
    name: str,
    setting: str,
    titles: Mapping[Any, str],
    published: Mapping[str, Mapping[Any, float]],
) -> str:
    """
    One row for each task and biLM of a table, with the paper's own row below if it has one. The
    columns are the values in the table, in the order of `titles`. Results that are significantly
    worse than the best of their row have an arrow.
    """
    seeds = results.seeds(name)
    groups: dict[tuple[str, str], dict[Any, Mapping[str, Any]]] = {}
    for cell in results.grid.tables[name]:
        settings = cell.settings
        if settings["bilm"] != "none":
            group = groups.setdefault((settings["task"], settings["bilm"]), {})
            _put(group, settings[setting], settings, name)
    values = dict.fromkeys(value for cells in groups.values() for value in cells)
    columns = {value: title for value, title in titles.items() if value in values}
    n_bilms = len({bilm for _, bilm in groups})
    lines: list[list[object]] = []
    for (task, bilm), cells in groups.items():
        line: list[object] = [_title(results, task) + f", {_role(bilm)}" * (n_bilms > 1)]
        line.append(str(results.baseline(next(iter(cells.values())), seeds)))
        found = {value: results.summary(cells[value], seeds) for value in columns if value in cells}
        shown = _with_arrows(found)
        line += [shown.get(value, "") for value in columns]
        lines.append(line)
    for task, numbers in published.items():
        if task not in results.grid.tasks:
            continue
        known = [numbers.get(value, "") for value in ("none", *columns)]
        lines.append([f"the paper's {results.grid.tasks[task]['title']}", *map(str, known)])
    return table(["task", _role("none"), *columns.values()], lines)


def _with_arrows(row: Mapping[Any, Summary]) -> dict[Any, str]:
    """A row with an arrow at the results that are significantly worse than the best one."""
    best = max(row, key=lambda value: row[value].mean if row[value].values else -inf)
    others = [value for value in row if value != best]
    is_worse = significant([(row[value], row[best]) for value in others])
    arrows = {value: " ↓" for value, worse in zip(others, is_worse) if worse}
    return {value: f"{summary}{arrows.get(value, '')}" for value, summary in row.items()}


def _figure_1(results: Results, folder: Path) -> str:
    seeds = results.seeds("figure 1")
    curves: dict[str, dict[str, dict[float, Summary]]] = {}
    points_of: dict[tuple[str, str, float], Mapping[str, Any]] = {}
    for cell in results.grid.tables["figure 1"]:
        settings = cell.settings
        point = settings["task"], settings["bilm"], settings["fraction"]
        _put(points_of, point, settings, "figure 1")
        lines = curves.setdefault(_title(results, settings["task"]), {})
        points = lines.setdefault(settings["bilm"], {})
        points[settings["fraction"]] = results.summary(settings, seeds)
    ordered = {
        title: {bilm: sorted(points.items()) for bilm, points in lines.items()}
        for title, lines in curves.items()
    }
    pictures.learning_curves(ordered, folder / "figure1.svg")
    rows: list[list[object]] = []
    bilms = list(dict.fromkeys(bilm for lines in curves.values() for bilm in lines))
    for title, lines in curves.items():
        for fraction in sorted({fraction for points in lines.values() for fraction in points}):
            found = {bilm: points[fraction] for bilm, points in lines.items() if fraction in points}
            cells = [str(found.get(bilm, "")) for bilm in bilms]
            rows.append([title, f"{100 * fraction:g} %", _size(list(found.values())), *cells])
    columns = ["task", "part", "examples", *(_role(bilm) for bilm in bilms)]
    picture = "![Results with parts of the training data, as in the table](results/figure1.svg)"
    return f"{picture}{_baseline(results, 'figure 1')}\n\n{table(columns, rows)}"


def _mixes(results: Results) -> str:
    """The learned weights of each mix of layers."""
    found: list[tuple[str, str, list[str], str]] = []
    for task, bilms in _by_task(results, "table 1").items():
        settings = bilms[bilm := _models(results, bilms)[0]]
        if bilm == "none" or "transformer" in results.grid.bilms[bilm]:  # they have no such mix
            continue
        places = ["input", "output"] if settings["place"] == "both" else [settings["place"]]
        rows = results.summary(settings).rows
        for k, place in enumerate(places):
            name = f"{results.grid.tasks[task]['title']}, {place}"
            if not rows:
                found.append((name, str(settings["layers"]), [NOT_RUN], ""))
                continue
            mixes = [row["mixes"][k] for row in rows]
            s = [mean(s_j) for s_j in zip(*(mix["s"] for mix in mixes))]
            gamma = mean(mix["gamma"] for mix in mixes)
            found.append((name, str(settings["layers"]), [f"{x:.3f}" for x in s], f"{gamma:.3f}"))
    if not found:
        return ""
    n_layers = max((len(s) for *_, s, gamma in found if gamma), default=0) or 3
    lines = [
        [name, layers, *s, *[""] * (n_layers - len(s)), gamma] for name, layers, s, gamma in found
    ]
    lstms = [f"LSTM {layer}" for layer in range(1, n_layers)]
    return table(["mix", "λ", "s of words", *lstms, "γ"], lines)


def _cost(results: Results) -> str:
    """What each table took, and what a run of each kind takes."""
    lines: list[list[object]] = []
    for name in results.grid.tables:
        cells = [cell for cell in results.grid.cells() if cell.table == name]
        rows = [results.rows[cell.key] for cell in cells if cell.key in results.rows]
        used = sum(row["cpu_seconds"] for row in rows) / 3600
        lines.append([name, f"{used:.2f}", f"{len(rows)} of {len(cells)}"])
    total = sum(row["cpu_seconds"] for row in results.rows.values()) / 3600
    n_cells = len(results.grid.cells())
    lines.append(["all", f"{total:.2f}", f"{len(results.rows)} of {n_cells}"])
    per_table = table(["table", "core-hours", "runs"], lines)
    tasks = _by_task(results, "table 1")
    names = list(dict.fromkeys(name for bilms in tasks.values() for name in bilms))
    runs: list[list[object]] = []
    for task, bilms in tasks.items():
        costs = [
            _run_cost(results.summary(bilms[name]).rows) if name in bilms else "" for name in names
        ]
        runs.append([_title(results, task), *costs])
    per_run = table(["a run", *map(_role, names)], runs)
    found = results.rows.values()
    facts = [
        f"{title}: " + (", ".join(sorted({str(row[key]) for row in found})) or NOT_RUN) + "."
        for key, title in (("commit", "Commits"), ("processor", "Processors"))
    ]
    return "\n\n".join([per_table, per_run, *facts])


def _run_cost(rows: Sequence[Row]) -> str:
    """
    The mean CPU seconds, the mean best epoch of all epochs, and how many runs have the best epoch
    last.
    """
    if not rows:
        return NOT_RUN
    seconds, best, epochs = (
        f"{mean(row[key] for row in rows):.0f}" for key in ("cpu_seconds", "best_epoch", "epochs")
    )
    n_last = sum(row["best_epoch"] == row["epochs"] for row in rows)
    return f"{seconds} s, {best} of {epochs}, {n_last} last"


def _by_task(results: Results, name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The settings of a table by task and biLM."""
    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in results.grid.tables.get(name, []):
        settings = cell.settings
        _put(tasks.setdefault(settings["task"], {}), settings["bilm"], settings, name)
    return tasks


def _put(cells: dict[Any, Any], key: Any, settings: Mapping[str, Any], name: str) -> None:
    """Add the settings of a table's cell, which may differ from those there in the seed only."""
    known = cells.setdefault(key, settings)
    for setting, value in settings.items():
        if setting != "seed" and value != known[setting]:
            raise InputError(
                f"{name}: {settings['task']} {_role(settings['bilm'])}: {setting}: expected one "
                f"value in a cell of the table, found {known[setting]} and {value}"
            )


def _title(results: Results, task: str) -> str:
    facts = results.grid.tasks[task]
    return f"{facts['title']} ({facts['data']})"


def _size(summaries: list[Summary]) -> str:
    """The number of training instances, which all runs have in common."""
    sizes = sorted({row["instances"] for summary in summaries for row in summary.rows})
    return " or ".join(f"{size:,}" for size in sizes)


def _error_reduction(baseline: Summary, summary: Summary) -> str:
    if not summary.n_seeds:
        return ""
    if not baseline.values or not summary.values:
        return NOT_RUN
    if baseline.mean == 100:  # no error that could be reduced
        return ""
    return f"{error_reduction(baseline.mean, summary.mean):.1f} %"


def _filled(text: str, results: Results) -> str:
    tasks = _by_task(results, "table 1")

    def fill(match: re.Match[str]) -> str:
        task, bilm = match.groups()
        settings = tasks.get(task, {}).get(bilm)
        if settings is None:
            raise ValueError(f"text: expected a task and a biLM of table 1, found {match[0]}")
        summary = results.summary(settings)
        return f"{summary.mean:.1f}" if summary.values else NOT_RUN

    return PLACEHOLDER.sub(fill, text)
