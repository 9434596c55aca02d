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
from experiments.report.analyses import analysis_sections
from experiments.report.page import grid_sections
from experiments.report.statistics import Results, Summary, differences
from experiments.rows import append_row, read_rows
from tests.conftest import ROOT
from tests.pictures import illegible

PICTURES = "gains", "figure1", "blimp", "syntaxgym", "reading_times", "from_scratch"

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
    """The cells of the tables of a section, line by line."""
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
    found = [line for line in lines_of(page, "Table 1") if line[0] == "NER, F1"]
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

    gains = []
    for elmo in (small, medium, minilm):
        reduction = 100 * (elmo.mean() - none.mean()) / (100 - none.mean())
        gains.append(f"{welch(none, elmo)}; {reduction:.1f} %")
        gains += [welch(small, elmo)] * (elmo is not small)
    assert [x[1:] for x in found] == [[*map(text, (none, small, medium, minilm))], gains]
    lines = [line for line in lines_of(page, "Other biLMs") if line[0].startswith("NER")]
    for bilm, line in zip((random, static), lines, strict=True):
        assert line[1:] == [text(bilm), welch(none, bilm), welch(bilm, small)]


@pytest.mark.parametrize("bilm, n_mixes", [("none", 0), ("small", 1), ("minilm", 0)])
def test_grids_of_users(bilm: str, n_mixes: int, grid: Grid, tmp_path: Path) -> None:
    """A transformer has no learned mix of a biLM's layers, and GloVe's are pretrained vectors."""
    facts = {"task": "ner", "bilm": bilm, "layers": 0, "place": "input", "fraction": 1, "seed": 1}
    cell = Cell("table 1", facts, {"model": {"pretrained_file": "glove.txt"}})
    grid = Grid(grid.tasks, grid.bilms, {"table 1": [cell]})
    row = {**made_up_row(grid, cell, 0.5), "mixes": [{"s": [0.5, 0.5], "gamma": 1}] * n_mixes}
    page = grid_sections(Results(grid, [row]), tmp_path)
    assert ("Learned weights of the layers" in page) == bool(n_mixes)
    assert "No task model has pretrained" not in page["Table 1: with and without ELMo"]


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
    found = [text.split(" ")[0] for text in differences([*pairs, none])]
    assert found == ["**+10.00**", "**+8.00**", "**+11.00**", "+10.00"]
    found = differences([*pairs, (summary(50, 52), summary(53, 55))])
    assert [text.split(" ")[0] for text in found] == ["+10.00", "+8.00", "+11.00", "+3.00"]
    # Every interval of the three excludes zero.
    assert all(text.split("(")[1].startswith("+") for text in found[:3])


def test_ambiguous_rows_are_refused(grid: Grid, rows: list[dict]) -> None:
    with pytest.raises(ValueError, match=r"expected one row of .*found two"):
        Results(grid, [*rows, rows[0]])
    small = next(row for row in rows if row["settings"]["bilm"] == "small")
    again = {**small, "bilm_digest": "another"}  # of a biLM that was trained again
    message = "rows.jsonl: expected one biLM called small, found .* small and another"
    for others in (rows, [row for row in rows if row is not small]):
        with pytest.raises(ValueError, match=message):
            Results(grid, [*others, again], "rows.jsonl")


@pytest.mark.parametrize("table", ["table 1", "table 2", "table 3", "figure 1"])
def test_two_results_in_one_place(table: str, grid: Grid, rows: list[dict], tmp_path: Path) -> None:
    """By definition: a table shows one value of the settings that it does not compare."""
    first = next(x for x in grid.tables[table] if x.settings["bilm"] == "small")
    key = "place" if table == "figure 1" else "fraction"
    other = Cell(table, first.settings | {key: "other"}, first.config)
    mixed = grid._replace(tables=grid.tables | {table: [*grid.tables[table], other]})
    message = rf"{table}: .* with `small`: {key}: expected one value .* and other"
    with pytest.raises(InputError, match=message):
        grid_sections(Results(mixed, rows), tmp_path)


@pytest.mark.parametrize("key", ["digest", "data"])
def test_rows_of_analyses_that_cannot_be_compared(key: str, tmp_path: Path) -> None:
    """By definition: rows of another biLM of the same name, or of other data, would be mixed in one
    table."""
    row: dict[str, Any] = {"bilm": "small", "digest": "a", "metrics": {"accuracy": 92.86}}
    row["settings"] = {"layer": "LSTM 1", "initial_state": "warm", "data": "ud"}
    other = row | ({key: "b"} if key == "digest" else {"settings": row["settings"] | {key: "b"}})
    for found in (row, other):
        append_row(tmp_path / "pos.jsonl", found)
    with pytest.raises(ValueError, match=rf"pos\.jsonl: {key}.*: expected one"):
        analysis_sections(tmp_path)


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
    assert f"on BLiMP, forward direction | {small:.1f} % | {medium:.1f} % |" in text
    tops = [dwug.last_lstm(read_rows(dwug.FILE), name) for name in ("small", "medium")]
    change = " and ".join(f"{dwug.correlation(row, 'apd').value:.2f}" for row in tops if row)
    assert f"with annotated change are {change}." in re.sub(r"\s+", " ", text)


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
                rf"^\| {task}, [^|]+\| \*\*\+([\d.]+)",
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
