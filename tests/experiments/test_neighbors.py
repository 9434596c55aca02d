"""Table 4; tests/elmo/test_meanings.py compares the search itself with an oracle."""

import sys
from pathlib import Path

import pytest

from elmo_plugin import Elmo
from experiments import neighbors
from experiments.rows import read_rows


def test_rows_and_table(bilm_archive: str, tmp_path: Path) -> None:
    """By hand: two of the lines have the word, and `|` does not end a cell."""
    text = tmp_path / "text.txt"
    text.write_text("They play .\nNothing here .\nA | play .\n")
    rows = neighbors.neighbor_rows("a", Elmo.from_archive(bilm_archive), str(text))
    assert [sorted(row["metrics"]["sentences"]) for row in rows] == [
        ["A | **play** .", "They **play** ."]
    ] * 2
    lines = neighbors.neighbors_table(rows).splitlines()
    assert len(lines) == 2 + 4
    assert sum("A \\| **play** ." in line for line in lines) == 2


def test_long_sentences_are_cut() -> None:
    assert neighbors.marked("a b c d e f g", 3, 1) == "… c **d** e …"
    assert neighbors.marked("a b c d e f g", 3) == "a b c **d** e f g"


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model by its name, and a row for each source."""
    text, rows = tmp_path / "text.txt", tmp_path / "rows.jsonl"
    text.write_text("They play .\n")
    arguments = [str(text), "tiny=pretrained://tiny", "--results", str(rows)]
    monkeypatch.setattr(sys, "argv", ["neighbors", *arguments])
    neighbors.main()
    assert len(read_rows(rows)) == 2
