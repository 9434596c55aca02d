"""The results page. Its numbers are compared with NumPy's, for invented rows."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from matplotlib.figure import Figure

from elmo_plugin.checks import InputError
from experiments import agreement, blimp, dwug, probe, wic
from experiments.grid.cells import Cell, Grid, read_grid
from experiments.report import __main__ as report
from experiments.report.__main__ import write_page
from experiments.report.page import grid_sections, page
from experiments.report.statistics import Results, Summary, differences
from experiments.rows import append_row, read_rows
from tests.conftest import ROOT
from tests.pictures import illegible

PICTURES = "gains", "figure1", "blimp", "syntaxgym", "reading_times"

PAPER = ROOT / "experiments" / "grid" / "paper.jsonnet"
RESULTS = ROOT / "experiments" / "results"


read_once = cache(read_grid)
"""The paper's grid takes seconds to evaluate."""


@pytest.fixture(autouse=True)
def read_each_grid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "read_grid", read_once)


@pytest.fixture(scope="module")
def grid() -> Grid:
    return read_once(PAPER)


def made_up_row(grid: Grid, cell: Cell, value: float) -> dict:
    places = {None: 0, "both": 2}.get(cell.settings["place"], 1)
    return {
        "key": cell.key,
        "settings": cell.settings,
        "config_digest": cell.config_digest,
        "bilm_digest": cell.settings["bilm"],
        "instances": 1000,
        "metrics": {grid.tasks[cell.settings["task"]]["metric"]: value},
        "epochs": 4,
        "best_epoch": 2,
        "cpu_seconds": 36.0,
        "mixes": [{"s": [0.2, 0.5, 0.3], "gamma": 1.5}] * places,
        "commit": "abc",
        "processor": "one",
    }


@pytest.fixture(scope="module")
def rows(grid: Grid) -> list[dict]:
    """A row for each cell."""
    random = np.random.default_rng(0)
    return [made_up_row(grid, cell, float(random.uniform(0.4, 0.9))) for cell in grid.cells()]


def write(folder: Path, rows: list[dict], text: Path | None = None) -> str:
    folder.mkdir()
    (folder / "rows.jsonl").touch()
    for row in rows:
        append_row(folder / "rows.jsonl", row)
    write_page(PAPER, folder / "rows.jsonl", text, folder / "results.md")
    return (folder / "results.md").read_text()


def lines_of(page: str, title: str) -> list[list[str]]:
    """The cells of the first table of a section."""
    lines = page.split(f"## {title}")[1].split("\n## ")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]


def values(rows: list[dict], **settings: object) -> np.ndarray:
    """The metric of the rows with these settings, in percent."""
    found = [row for row in rows if settings.items() <= row["settings"].items()]
    return 100 * np.array([next(iter(row["metrics"].values())) for row in found])


def test_numbers(grid: Grid, rows: list[dict], tmp_path: Path) -> None:
    """Expected: NumPy's means, deviations of samples, and error reductions, and Welch's formula.
    The values are drawn alike, so no difference is significant after a correction."""
    page = write(tmp_path / "page", rows)
    line = lines_of(page, "Table 1")[2]
    none, random, static, small, medium, minilm = (
        values(rows, task="ner", bilm=bilm, fraction=1, layers=layers, place=place)
        for bilm, layers, place in (
            ("none", None, None),
            ("random", 0.1, "input"),
            ("static", "words", "input"),
            ("small", 0.1, "input"),
            ("medium", 0.1, "input"),
            ("minilm", 0, "input"),
        )
    )

    def text(x: np.ndarray) -> str:
        return f"{x.mean():.2f} ± {np.std(x, ddof=1):.2f} ({len(x)})"

    def welch(x: np.ndarray, y: np.ndarray) -> str:
        a, b = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
        degrees = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
        half = scipy.special.stdtrit(degrees, 0.975) * np.sqrt(a + b)
        gain = y.mean() - x.mean()
        return f"{gain:+.2f} ({gain - half:+.2f} to {gain + half:+.2f})"

    expected = [text(none)]
    for elmo in (small, medium, minilm):
        reduction = 100 * (elmo.mean() - none.mean()) / (100 - none.mean())
        expected += [text(elmo), welch(none, elmo), f"{reduction:.1f} %"]
        expected += [welch(small, elmo)] * (elmo is not small)
    assert line == ["NER, F1", *expected]
    # The grid has no cell of SRL with the transformer.
    line = next(x for x in page.splitlines() if x.startswith("| SRL, F1 |"))
    assert line.endswith(" |  |  |  |  |")
    # Table 1 of the paper gives 21 % for NER.
    line = lines_of(page, "The data")[2]
    assert line == ["NER", "WNUT-17", "1,000", "90.15 → 92.22", "21.0 %"]
    lines = [line for line in lines_of(page, "Other biLMs") if line[0].startswith("NER")]
    for bilm, line in zip((random, static), lines, strict=True):
        assert line[1:] == [text(bilm), welch(none, bilm), welch(bilm, small)]

    line = next(line for line in lines_of(page, "Table 3") if line[0].startswith("POS"))
    same = {"task": "pos", "fraction": 1}
    for place, found in zip(("input", "both", "output"), line[2:]):
        of_place = values(rows, bilm="small", layers=0.001, place=place, **same)
        assert found.removesuffix(" ↓") == text(of_place)
    assert line[1] == text(values(rows, bilm="none", **same))
    # Table 3 of the paper, without a baseline.
    assert lines_of(page, "Table 3")[-1] == ["the paper's SRL", "", "84.7", "84.3", "80.9"]
    assert lines_of(page, "Learned weights")[2][2:] == ["0.200", "0.500", "0.300", "1.500"]
    n_runs = len(grid.cells())
    total = ["all", f"{0.01 * n_runs:.2f}", f"{n_runs} of {n_runs}"]
    assert total in lines_of(page, "Cost")


def test_a_grid_of_your_own(grid: Grid, tmp_path: Path) -> None:
    """By hand: its columns are its biLMs, without the paper's numbers, and the error of 40 %
    becomes one of 20 %. Sections of tables that it lacks are left out."""
    settings = {"task": "mine", "layers": 0.1, "place": "input", "fraction": 1, "seed": 1}
    none = {**settings, "bilm": "none", "layers": None, "place": None}
    cells = [Cell("table 1", x, {}) for x in (none, {**settings, "bilm": "german"})]
    tasks = {"mine": {"title": "tags", "data": "own", "metric": "accuracy", "seconds": 1}}
    own = Grid(tasks, {}, {"table 1": cells, "table 2": cells[1:]})
    rows = [made_up_row(own, cell, value) for cell, value in zip(cells, (0.6, 0.8))]
    sections = grid_sections(Results(own, rows), tmp_path / "results")
    assert [re.split("[:,]", title)[0] for title in sections] == [
        "Table 1",
        "The data",
        "Table 2",
        "Learned weights of the layers",
        "Cost",
    ]
    *_, header, _, line = sections["Table 1: with and without ELMo"].splitlines()
    assert header == "| task | without ELMo | with `german` | gain | error reduction |"
    assert line == "| tags, accuracy | 60.00 (1) | 80.00 (1) | +20.00 | 50.0 % |"
    assert sections["The data, and the paper's results"].splitlines() == [
        "| task | data | training examples |",
        "| --- | --- | --- |",
        "| tags | own | 1,000 |",
    ]
    assert "tags, input | 0.1 | 0.200 | 0.500 | 0.300" in " ".join(sections.values())


def summary(*values: float) -> Summary:
    return Summary(list(values), max(1, len(values)), [])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([50.0], [60.0], "+10.00"),  # one seed has no interval
        ([50.0, 50.0], [60.0, 60.0], "+10.00"),  # nor have seeds that do not vary
        # By hand: two values each, deviations of sqrt(2), so t of 2 degrees, 4.303, times sqrt(2).
        ([50.0, 52.0], [60.0, 62.0], "**+10.00** (+3.92 to +16.08)"),
        ([50.0, 52.0], [55.0, 57.0], "+5.00 (-1.08 to +11.08)"),
        ([60.0, 62.0], [50.0, 52.0], "**-10.00** (-16.08 to -3.92)"),
        ([], [60.0], "not run yet"),
    ],
)
def test_differences(before: list[float], after: list[float], expected: str) -> None:
    assert differences([(summary(*before), summary(*after))]) == [expected]


def test_many_differences() -> None:
    """By hand: with two values each, deviations of sqrt(2) and a difference of d, t = d / sqrt(2)
    has the p-value 1 - t / sqrt(2 + t^2), which is 0.0194 for d = 10, 0.0161 for d = 11 and 0.0299
    for d = 8. Holm's levels are 0.05 / 3, 0.05 / 2 and 0.05, so that all differ; next to a fourth,
    whose 0.15 is above 0.05, the first level is 0.05 / 4, and none does. A pair with one seed has
    no test, and is not counted."""
    pairs = [(summary(50, 52), summary(50 + d, 52 + d)) for d in (10, 8, 11)]
    none = (summary(50), summary(60))
    found = differences([*pairs, none])
    assert [text.split(" ")[0] for text in found] == [
        "**+10.00**",
        "**+8.00**",
        "**+11.00**",
        "+10.00",
    ]
    found = differences([*pairs, (summary(50, 52), summary(53, 55))])
    assert [text.split(" ")[0] for text in found] == ["+10.00", "+8.00", "+11.00", "+3.00"]
    # Every interval of the three excludes zero.
    assert all(text.split("(")[1].startswith("+") for text in found[:3])


def test_holms_steps() -> None:
    """By hand, as above: 11 passes the first of two levels, 0.025, and 3 not the second, 0.05."""
    pairs = [(summary(50, 52), summary(50 + d, 52 + d)) for d in (3, 11)]
    assert [text[:2] for text in differences(pairs)] == ["+3", "**"]


def test_arrows(tmp_path: Path) -> None:
    """By hand: with two seeds, 50 ± 1.41 differs from 60 ± 1.41, and 57 ± 1.41 does not."""
    cells, rows = [], []
    values = {"top": 50, "average": 57, 1: 60}
    settings = {"task": "mine", "bilm": "small", "place": "input", "fraction": 1}
    for layers, value in values.items():
        for seed in (1, 2):
            cells.append(Cell("table 2", {**settings, "layers": layers, "seed": seed}, {}))
            rows.append((value + 2 * seed - 3) / 100)
    tasks = {"mine": {"title": "tags", "data": "own", "metric": "accuracy", "seconds": 1}}
    own = Grid(tasks, {}, {"table 2": cells})
    results = Results(own, [made_up_row(own, cell, x) for cell, x in zip(cells, rows)])
    section = grid_sections(results, tmp_path)["Table 2: layers"]
    line = section.splitlines()[-1].strip("| ").split(" | ")[2:]
    assert line == ["50.00 ± 1.41 (2) ↓", "60.00 ± 1.41 (2)", "57.00 ± 1.41 (2)"]
    # Without the first, all are as good as the best.
    own.tables["table 2"] = cells[2:]
    assert "↓" not in grid_sections(results, tmp_path)["Table 2: layers"]


def own_results(table: str, *settings: dict) -> Results:
    """A row with the accuracy 0.5, 0.6, ... for each cell of a grid's only table."""
    default = {"task": "mine", "layers": 0.1, "place": "input", "fraction": 1, "seed": 1}
    cells = [Cell(table, default | x, {}) for x in settings]
    tasks = {
        name: {"title": f"tags {name}", "data": "own", "metric": "accuracy", "seconds": 1}
        for name in {cell.settings["task"]: None for cell in cells}
    }
    grid = Grid(tasks, {}, {table: cells})
    return Results(grid, [made_up_row(grid, c, 0.5 + 0.1 * k) for k, c in enumerate(cells)])


NONE = {"bilm": "none", "layers": None, "place": None}


def test_all_layers_and_bilms_are_shown(tmp_path: Path) -> None:
    """By hand: the λ are between the last layer and the others, and the largest is the first."""
    results = own_results(
        "table 2",
        NONE,
        *({"bilm": "a", "layers": layers} for layers in (0.1, "words", "top", 1)),
        {"bilm": "b", "layers": "top"},
    )
    assert grid_sections(results, tmp_path)["Table 2: layers"].splitlines() == [
        "| task | without ELMo | last layer only | all, λ = 1 | all, λ = 0.1 | words only |",
        "| --- | --- | --- | --- | --- | --- |",
        "| tags mine (own), with `a` | 50.00 (1) | 80.00 (1) | 90.00 (1) | 60.00 (1) | 70.00 (1) |",
        "| tags mine (own), with `b` | 50.00 (1) | 100.00 (1) |  |  |  |",
    ]


@pytest.mark.parametrize("table", ["table 1", "table 2", "table 3", "figure 1"])
def test_two_results_in_one_place_are_refused(table: str, tmp_path: Path) -> None:
    """A table shows one value of the settings that it does not compare."""
    other = {"place": "output"} if table == "figure 1" else {"fraction": 0.1}
    results = own_results(table, {"bilm": "a"}, {"bilm": "a", **other})
    message = rf"{table}: mine with `a`: {next(iter(other))}: expected one value .* and "
    with pytest.raises(InputError, match=message):
        grid_sections(results, tmp_path)


def test_tasks_with_different_bilms(tmp_path: Path) -> None:
    """By hand: each task names its biLM."""
    cells = [NONE, {"bilm": "a"}, NONE | {"task": "b"}, {"task": "b", "bilm": "c"}]
    sections = grid_sections(own_results("table 1", *cells), tmp_path)
    assert sections["Table 1: with and without ELMo"].splitlines()[-2:] == [
        "| tags mine, accuracy, with `a` | 50.00 (1) | 60.00 (1) | +10.00 | 20.0 % |",
        "| tags b, accuracy, with `c` | 70.00 (1) | 80.00 (1) | +10.00 | 33.3 % |",
    ]
    cells[1] |= {"fraction": 0.1}
    sections = grid_sections(own_results("figure 1", *cells), tmp_path)
    assert sections["Figure 1: size of the training data"].splitlines()[-3:] == [
        "| tags mine (own) | 10 % | 1,000 |  | 60.00 (1) |  |",
        "| tags mine (own) | 100 % | 1,000 | 50.00 (1) |  |  |",
        "| tags b (own) | 100 % | 1,000 | 70.00 (1) |  | 80.00 (1) |",
    ]


def test_columns_of_table_1(tmp_path: Path) -> None:
    """By hand: table 1 has both biLMs that the grid names, each compared with none and the second
    with the first too; the third is compared with the first of them. A biLM without rows has no
    column."""
    results = own_results("table 1", NONE, {"bilm": "r"}, {"bilm": "a"}, {"bilm": "b"})
    results.grid = results.grid._replace(columns=["a", "b"])
    sections = grid_sections(results, tmp_path)
    both = sections["Table 1: with and without ELMo"].splitlines()
    groups = ["with `a` | gain | error reduction", "with `b` | gain | error reduction"]
    assert both[4] == f"| task | without ELMo | {' | '.join(groups)} | gain over `a` |"
    last = "70.00 (1) | +20.00 | 40.0 % | 80.00 (1) | +30.00 | 60.0 % | +10.00 |"
    assert both[-1] == f"| tags mine, accuracy | 50.00 (1) | {last}"
    others = sections["Other biLMs"].splitlines()
    assert others[0] == "| task | with `r` | gain over none | gain of `a` over it |"
    assert others[-1] == "| tags mine (own) | 60.00 (1) | +10.00 | +10.00 |"
    assert "`b`" not in sections["Other biLMs"]
    assert "<!-- with b -->" in (tmp_path / "gains.svg").read_text()

    del results.rows[results.grid.tables["table 1"][-1].key]
    sections = grid_sections(results, tmp_path)
    assert f"| task | without ELMo | {groups[0]} |" in sections["Table 1: with and without ELMo"]
    assert "with b" not in (tmp_path / "gains.svg").read_text() and len(sections) == 5


def test_columns_that_are_no_bilms(tmp_path: Path) -> None:
    """The message names the key."""
    file = tmp_path / "grid.jsonnet"
    file.write_text(
        "{ tasks: {}, bilms: {}, tables: [{name: 'table 1', cells: [], columns: [1]}] }"
    )
    with pytest.raises(InputError, match=r"columns: expected biLMs among , found \[1\]"):
        read_grid(file)


def test_a_table_compares_the_seeds_that_it_lists(tmp_path: Path) -> None:
    """By hand: table 3 has one seed of three, with the accuracy 0.7 without and 0.6 with ELMo."""
    small = {"bilm": "a", "seed": 1}
    seeds = [NONE | {"seed": 2}, small, NONE | {"seed": 1}, {"bilm": "a", "seed": 2}]
    results = own_results("table 1", *seeds)
    results.grid.tables["table 3"] = [results.grid.tables["table 1"][1]]
    line = grid_sections(results, tmp_path)["Table 3: places"].splitlines()[-1]
    assert line == "| tags mine (own) | 70.00 (1) | 60.00 (1) |"


def test_a_grid_without_table_1(tmp_path: Path) -> None:
    results = own_results("table 2", NONE, {"bilm": "a"})
    sections = grid_sections(results, tmp_path)
    assert page(sections, {}, results) == f"## Table 2: layers\n\n{sections['Table 2: layers']}\n"


def test_a_baseline_without_errors(tmp_path: Path) -> None:
    """By hand: it has no error that could be reduced."""
    results = own_results("table 1", NONE, {"bilm": "a"})
    results.rows[results.grid.tables["table 1"][0].key]["metrics"]["accuracy"] = 1.0
    line = grid_sections(results, tmp_path)["Table 1: with and without ELMo"].splitlines()[-1]
    assert line == "| tags mine, accuracy | 100.00 (1) | 60.00 (1) | -40.00 |  |"


def test_mixes_of_different_sizes(tmp_path: Path) -> None:
    """By hand: the last layer alone has no weights s, and a biLM may have fewer layers."""
    all_s = {"x": [], "y": [0.4, 0.6], "z": [0.2, 0.3, 0.5]}
    results = own_results("table 1", *({"bilm": "a", "task": task} for task in all_s))
    for row in results.rows.values():
        row["mixes"][0]["s"] = all_s[row["settings"]["task"]]
    lines = grid_sections(results, tmp_path)["Learned weights of the layers"]
    assert lines.splitlines() == [
        "| mix | λ | s of words | LSTM 1 | LSTM 2 | γ |",
        "| --- | --- | --- | --- | --- | --- |",
        "| tags x, input | 0.1 |  |  |  | 1.500 |",
        "| tags y, input | 0.1 | 0.400 | 0.600 |  | 1.500 |",
        "| tags z, input | 0.1 | 0.200 | 0.300 | 0.500 | 1.500 |",
    ]


def test_the_same_rows_give_the_same_bytes(rows: list[dict], tmp_path: Path) -> None:
    """In another order too. Without one row, the page and a picture differ."""
    first = write(tmp_path / "a", rows)
    assert write(tmp_path / "b", rows[::-1]) == first
    for name in ("gains.svg", "figure1.svg"):
        a, b = ((tmp_path / x / "results" / name).read_bytes() for x in "ab")
        assert a == b
    assert write(tmp_path / "rest", rows[1:]) != first
    a, b = ((tmp_path / x / "results" / "gains.svg").read_bytes() for x in ("a", "rest"))
    assert a != b


def test_missing_rows_are_named(grid: Grid, rows: list[dict], tmp_path: Path) -> None:
    """By hand: nothing, or one of five seeds; rows of other configs do not count."""
    page = write(tmp_path / "nothing", [])
    assert lines_of(page, "Table 1")[2][1:4] == ["not run yet"] * 3
    of_ner = [row for row in rows if row["settings"]["task"] == "ner"]
    other = {**of_ner[1], "config_digest": "another"}
    page = write(tmp_path / "one", [of_ner[0], other])
    value = 100 * of_ner[0]["metrics"]["f1-measure-overall"]
    assert lines_of(page, "Table 1")[2][1:3] == [f"{value:.2f} (1 of 5)", "not run yet"]
    picture = (tmp_path / "one" / "results" / "gains.svg").read_text()
    shown = re.findall(r"<!-- (\d+\.\d|hollow.*) -->", picture)
    assert shown == [f"{value:.1f}", "hollow: one seed"]  # what is missing has no bar


def test_ambiguous_rows_are_refused(grid: Grid, rows: list[dict]) -> None:
    with pytest.raises(ValueError, match=r"expected one row of .*found two"):
        Results(grid, [*rows, rows[0]])
    small = next(row for row in rows if row["settings"]["bilm"] == "small")
    again = {**small, "bilm_digest": "another"}  # of a biLM that was trained again
    message = "rows.jsonl: expected one biLM called small, found .* small and another; remove the"
    for others in (rows, [row for row in rows if row is not small]):
        with pytest.raises(ValueError, match=message):
            Results(grid, [*others, again], "rows.jsonl")


def test_a_metric_that_the_rows_lack() -> None:
    results = own_results("table 1", NONE)
    results.grid.tasks["mine"]["metric"] = "f1"
    message = "tasks: mine: metric: expected one of accuracy, found 'f1'"
    with pytest.raises(InputError, match=message):
        results.baseline(results.grid.tables["table 1"][0].settings)


def test_prose(grid: Grid, rows: list[dict], tmp_path: Path) -> None:
    """Numbers in prose come from the rows; a section that the page has not is an error.

    A line of prose may end inside of braces, and nothing in braces stays as it is."""
    text = tmp_path / "text.md"
    text.write_text("# Table 3: places\n\nIt was {sst none} and is {sst\nsmall}.\n")
    written = write(tmp_path / "page", rows, text)
    before, after = (
        values(rows, task="sst", bilm=bilm, fraction=1, **more).mean()
        for bilm, more in (("none", {}), ("small", {"place": "both", "layers": 0.001}))
    )
    assert f"It was {before:.1f} and is {after:.1f}.\n" in written.split("## Table 3")[1]
    results = Results(grid, rows)
    for name in ("sst large", "sst", "sst small gain", ""):
        with pytest.raises(ValueError, match=rf"a task and a biLM of table 1, found \{{{name}\}}"):
            page({}, {"Results": f"{{{name}}}"}, results)
    with pytest.raises(ValueError, match=r"text: expected sections of .*, found \['Table 9'\]"):
        page({}, {"Table 9": ""}, results)


PROBE_ROW = {
    **{"bilm": "small", "digest": "a", "metrics": {"accuracy": 92.86}},
    "settings": {"layer": "LSTM 1", "initial_state": "warm", "data": "ud"},
}


def test_rows_of_analyses(tmp_path: Path) -> None:
    """By hand: a row of the probe next to those of the grid is the cell of its layer in table 6."""
    assert "Table 6" not in write(tmp_path / "page", [])
    append_row(tmp_path / "page" / "pos.jsonl", PROBE_ROW)
    write_page(PAPER, tmp_path / "page" / "rows.jsonl", None, tmp_path / "again.md")
    lines = lines_of((tmp_path / "again.md").read_text(), "Table 6")
    assert lines[0] == ["vectors", "LSTM 1"] and lines[2] == ["small, `warm`", "92.9"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digest": "b"}, r"pos\.jsonl: digest of small: expected one .* found \['a', 'b'\]"),
        ({"settings": {"layer": "words", "data": "other"}}, r"pos\.jsonl: data: expected one"),
    ],
)
def test_rows_of_analyses_that_cannot_be_compared(
    change: dict, message: str, tmp_path: Path
) -> None:
    """Rows of another biLM with the same name, or of other data, would be mixed in one table."""
    for found in (PROBE_ROW, {**PROBE_ROW, **change}):
        append_row(tmp_path / "pos.jsonl", found)
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(ValueError, match=message):
        write_page(PAPER, tmp_path / "rows.jsonl", None, tmp_path / "results.md")


def test_rows_that_do_not_exist(tmp_path: Path) -> None:
    """A misspelled path leaves the page as it was."""
    (tmp_path / "results.md").write_text("before")
    with pytest.raises(FileNotFoundError, match=r"typo\.jsonl"):
        write_page(PAPER, tmp_path / "typo.jsonl", None, tmp_path / "results.md")
    assert (tmp_path / "results.md").read_text() == "before"


def test_the_page_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    docs/results.md and experiments/details.md are what the report makes of the committed rows. In
    their pictures, no text is cut off or overlaps another.
    """
    figures: list[Figure] = []
    save = Figure.savefig

    def record(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", record)
    rows = RESULTS / "rows.jsonl"
    details = tmp_path / "experiments" / "details.md"
    for file in (tmp_path / "docs" / "results.md", details):
        file.parent.mkdir()
    write_page(PAPER, rows, RESULTS / "text.md", tmp_path / "docs" / "results.md", details)
    pictures = [f"docs/results/{name}.svg" for name in PICTURES]
    for name in ("docs/results.md", "experiments/details.md", *pictures):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes(), (
            f"{name} is out of date: run `python -m experiments.report`"
        )
    assert len(figures) == len(pictures) and not [x for x in map(illegible, figures) if x]


def test_the_readme_has_the_figures_of_the_rows() -> None:
    """Expected: the means of the committed rows of BLiMP, and the headline of change of meaning."""
    rows = blimp.by_bilm(read_rows(blimp.FILE))
    small, medium = (
        blimp.phenomena(rows[name])[blimp.ALL]["forward"] for name in ("small", "medium")
    )
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"BLiMP, from left to right | {small:.1f} % | {medium:.1f} % |" in text
    tops = [dwug.last_lstm(read_rows(dwug.FILE), name) for name in ("small", "medium")]
    change = " and ".join(f"{dwug.correlation(row, 'apd').value:.2f}" for row in tops if row)
    assert f"annotators' by {change}." in re.sub(r"\s+", " ", text)


def test_the_cards_and_pages_have_the_figures_of_the_rows() -> None:
    """Expected: the committed rows of the POS probe, WiC and agreement, the means in the page's
    table of test suites, and the gains in the tables that it has of the rows of the tasks."""
    pos = {}
    for row in read_rows(probe.FILE):
        pos.setdefault(row["bilm"], []).append(f"{row['metrics']['accuracy']:.1f}")
    cards = [ROOT / "elmo_plugin/pretrained/small/README.md"]
    cards.append(ROOT / "models/medium/elmo_plugin_medium/README.md")
    for card, names in zip(cards, (["small"], ["medium", "small"])):
        for name in names:
            assert f"| `{name}` | {' | '.join(pos[name])} |\n" in card.read_text("utf-8")

    best: dict[str, float] = {}
    for row in read_rows(wic.FILE):
        best[row["bilm"]] = max(best.get(row["bilm"], 0), row["metrics"]["accuracy"])
    low, high = min(best.values()), max(best.values())
    choose = re.sub(r"\s+", " ", (ROOT / "docs" / "choose.md").read_text("utf-8"))
    assert f"best layers are right on {low:.0f} to {high:.0f} % of the pairs" in choose

    pages = (ROOT / "docs" / "results.md", ROOT / "experiments" / "details.md")
    page = "".join(file.read_text("utf-8") for file in pages)
    suites = page.partition("## Test suites (SyntaxGym)")[2]
    means = dict(re.findall(r"^\| (`?[\w-]+`?) \| ([\d.]+) \(", suites, re.MULTILINE)[:9])
    assert f"`medium` ({means['`medium`']} %) is better" in choose
    assert f"(at most {means['RNNG']} %), and worse than GPT-2 ({means['GPT-2']} %)" in choose
    for card, name in zip(cards, ("`small`", "`medium`")):
        words = re.sub(r"\s+", " ", card.read_text("utf-8"))
        assert f"mean accuracy is {means[name]} %" in words
    shares = {}
    for task in ("NER", "SRL", "POS tagging"):
        gain, untrained = (
            float(re.search(pattern, page, re.MULTILINE)[1])
            for pattern in (
                rf"^\| {task}, [^|]+\|[^|]+\|[^|]+\| \*\*\+([\d.]+)",
                rf"^\| {task} \([^|]+\|[^|]+\| \**\+([\d.]+).+\|$",
            )
        )
        shares[task] = f"{100 * untrained / gain:.0f} %"
    own = {row["bilm"]: row for row in read_rows(agreement.FILE)}
    for card, name in zip(cards, ("small", "medium")):
        share = agreement.share(own[name], agreement.NONSENSE).split(" ")[0]
        written = re.sub(r"\s+", " ", card.read_text("utf-8"))
        assert f"is more probable in {share} % of the nonsense sentences" in written
    text = re.sub(r"\s+", " ", page)
    assert "gives {} of its gain on NER, {} on SRL, {} on POS".format(*shares.values()) in text
