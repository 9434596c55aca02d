"""The pages have the figures of speed in benchmarks/results.json."""

import json
import re
from collections.abc import Callable

import pytest

from benchmarks import __main__ as command
from benchmarks import tables
from tests.conftest import ROOT

FIGURES = tables.read_results()


def page(name: str) -> str:
    """A page with single spaces, and in one line."""
    return re.sub(r"\s+", " ", (ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize(
    "made, name",
    [
        (tables.installed, "docs/speed.md"),
        (tables.compared, "docs/speed.md"),
        (tables.task_modules, "docs/speed.md"),
        (tables.gpu_steps, "benchmarks/README.md"),
    ],
)
def test_the_page_has_the_rows(made: Callable[[tables.Results], str], name: str) -> None:
    """Expected: each row of the table that the figures make."""
    rows = re.sub(r" +", " ", made(FIGURES)).splitlines()
    text = page(name)
    assert len(rows) > 5 and [row for row in rows[2:] if row not in text] == []


def test_the_pages_have_the_figures_in_sentences() -> None:
    """Expected: the figures that follow from those of the file, by the functions of its tables."""
    text = page("docs/speed.md")
    assert [figure for figure in tables.sentences(FIGURES) if figure not in text] == []
    ratios = tables.ranges(FIGURES)
    readme, choose = page("README.md"), page("docs/choose.md")
    expected = f"training is {ratios['training']} times and computing vectors {ratios['vectors']} "
    assert expected in readme
    times = tables.times_transformer(FIGURES)
    assert f"`small`, the English model in the package, is {times} times as fast as it" in readme
    assert f"`small` is [{times} times as fast]" in choose
    found = tables.installed_speeds(FIGURES)
    speeds = {key: tables.rounded(speed) for key, speed in found.items()}
    small, medium = (speeds[model, "ours", 2] for model in ("small", "medium"))
    transformer = speeds["all-MiniLM-L6-v2", "transformer", 2]
    assert f"| {small} | {medium} |" in readme
    peers = (speeds[model, "allennlp", 2] for model in ("small", "medium"))
    assert "AllenNLP: {} and {}".format(*peers) in readme
    assert f"| {small} | {medium} | {transformer} |" in choose
    ratios = [found["small", "ours", n] / found["medium", "ours", n] for n in (2, 1)]
    card = page("models/medium/elmo_plugin_medium/README.md")
    assert "`small` is {:.1f} to {:.1f} times as fast".format(*ratios) in card


def test_a_run_replaces_its_own_parts(tmp_path) -> None:
    """By hand: parts and processors that were not measured stay."""
    file = tmp_path / "results.json"
    for kind, part, number in (("a", "scores", 1), ("b", "scores", 2), ("a", "training", 3)):
        command.record(file, part, {"conditions": {"kind": kind}, "number": number})
    command.record(file, "scores", {"conditions": {"kind": "a"}, "number": 4})
    found = json.loads(file.read_text())
    numbers = {kind: {part: x["number"] for part, x in of.items()} for kind, of in found.items()}
    assert numbers == {"a": {"scores": 4, "training": 3}, "b": {"scores": 2}}
