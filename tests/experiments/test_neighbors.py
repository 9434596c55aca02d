"""Table 4; tests/corpora/test_meanings.py compares the search itself with an oracle."""

import sys
from pathlib import Path

import pytest

from experiments import neighbors
from experiments.rows import read_rows


def test_rows_and_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: a row for each source, two of the lines have the word, and `|` does not end a
    cell."""
    text, rows = tmp_path / "text.txt", tmp_path / "rows.jsonl"
    text.write_text("They play .\nNothing here .\nA | play .\n")
    arguments = [str(text), "tiny=pretrained://tiny", "--results", str(rows)]
    monkeypatch.setattr(sys, "argv", ["neighbors", *arguments])
    neighbors.main()
    found = read_rows(rows)
    sentences = ["A | **play** .", "They **play** ."]
    assert [sorted(row["metrics"]["sentences"]) for row in found] == [sentences] * 2
    assert neighbors.neighbors_table(found).count("A \\| **play** .") == 2


def test_long_sentences_are_cut() -> None:
    """By hand."""
    assert neighbors.marked("a b c d e f g", 3, 1) == "… c **d** e …"
    assert neighbors.marked("a b c d e f g", 3) == "a b c **d** e f g"
