"""The rows of BLiMP and their tables."""

import json
import sys
from pathlib import Path

import pytest

from experiments import blimp
from experiments.rows import read_rows


def scores_of(shift: int) -> list[dict]:
    """What `score --pairs` writes for three paradigms of two phenomena."""
    directions = {"forward": 60.0, "backward": 70.0, "both": 80.0}
    rest = {f"{d}_ties": 0.0 for d in directions} | {f"{d}_known": None for d in directions}
    scores = [
        {"level": "paradigm", "name": name, "phenomenon": term, "pairs": 10, "unknown_pairs": 1}
        | {key: value + more + shift for key, value in directions.items()}
        | rest
        for name, term, more in (("a", "x_y", 0), ("b", "x_y", 10), ("c", "z", 2))
    ]
    scores[2] |= {f"{d}_known": 50.0 for d in directions}
    return [*scores, {"level": "all"}]


def test_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, from three paradigms of two phenomena, and the published accuracies in percent. New
    scores of a biLM replace its rows, which have the published accuracies."""
    published = [{"ngram": 50.0, "lstm": x, "txl": 60.0, "gpt2": 90.0} for x in (70.0, 80.0, 60.0)]
    before = [{"bilm": "small", **x, **y} for x, y in zip(scores_of(5), published)]
    scores, rows = tmp_path / "scores", tmp_path / "blimp.jsonl"
    rows.write_text("\n".join(map(json.dumps, before)))
    scores.write_text("\n".join(map(json.dumps, scores_of(0))))
    arguments = ["small", "--scores", str(scores), "--results", str(rows)]
    monkeypatch.setattr(sys, "argv", ["blimp", *arguments])
    blimp.main()
    assert [row["name"] for row in read_rows(rows)] == ["a", "b", "c"]
    text = blimp.sections(tmp_path, tmp_path)["BLiMP by phenomenon"]
    assert "| x y | 2 | 65.0 | 75.0 | 85.0 | 50.0 | 75.0 | 60.0 | 90.0 |" in text
    assert "| all | 3 | 64.0 | 74.0 | 84.0 | 50.0 | 70.0 | 60.0 | 90.0 |" in text
    assert "| `small`, forward | 64.0 | 3 of 30 | 50.0 | 0.00 |" in text


def test_differences() -> None:
    """By hand: gains of 1, 2 and 3 have the mean 2 and the standard error 1 / √3, and the 97.5 %
    quantile of t with two degrees of freedom is 4.303."""
    first = [{"name": name} | dict.fromkeys(blimp.DIRECTIONS, 50.0) for name in "abc"]
    gains = zip("cab", (51.0, 52.0, 53.0))
    other = [{"name": name} | dict.fromkeys(blimp.DIRECTIONS, x) for name, x in gains]
    (text,) = blimp.differences_table({"small": first, "medium": other})
    assert "| `medium`, forward | 2.0 | -0.5 to 4.5 |" in text
    assert blimp.differences_table({"small": first}) == []
