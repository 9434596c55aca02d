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


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command for a biLM. The rows of another have the published accuracies."""
    rows = tmp_path / "blimp.jsonl"
    published = [
        {"ngram": 50.0, "lstm": lstm, "txl": 60.0, "gpt2": 90.0} for lstm in (70.0, 80.0, 60.0)
    ]
    before = [
        {"bilm": "small", **scores, **accuracies}
        for scores, accuracies in zip(scores_of(5), published)
    ]
    rows.write_text("\n".join(map(json.dumps, before)))

    def add(bilm: str, shift: int) -> list[dict]:
        (tmp_path / "scores").write_text("\n".join(map(json.dumps, scores_of(shift))))
        arguments = [bilm, "--scores", tmp_path / "scores", "--results", rows]
        monkeypatch.setattr(sys, "argv", ["blimp", *map(str, arguments)])
        blimp.main()
        return read_rows(rows)

    return add


def test_means(add, tmp_path: Path) -> None:
    """By hand, from three paradigms of two phenomena, and the published accuracies in percent. New
    scores of a biLM replace its rows."""
    assert [row["name"] for row in add("small", 0)] == ["a", "b", "c"]
    found = blimp.sections(tmp_path, tmp_path)
    text = found["BLiMP by phenomenon"]
    assert "| x y | 2 | 65.0 | 75.0 | 85.0 | 50.0 | 75.0 | 60.0 | 90.0 |" in text
    assert "| all | 3 | 64.0 | 74.0 | 84.0 | 50.0 | 70.0 | 60.0 | 90.0 |" in text
    assert "| `small`, forward | 64.0 | 3 of 30 | 50.0 | 0.00 |" in text
    picture = (tmp_path / "blimp.svg").read_text()
    assert "<!-- 64.0 -->" in picture and "<!-- 70.0 -->" in picture and "medium" not in picture


@pytest.mark.filterwarnings("ignore:Precision loss")  # the differences are equal
def test_a_second_bilm_is_a_column(add, tmp_path: Path) -> None:
    """By hand: its accuracies are ten points higher. The published ones are those in the rows."""
    assert [row["bilm"] for row in add("medium", 15)] == ["small"] * 3 + ["medium"] * 3
    text = blimp.sections(tmp_path, tmp_path)["BLiMP by phenomenon"]
    small, medium = "69.0 | 79.0 | 89.0", "79.0 | 89.0 | 99.0"
    assert f"| all | 3 | {small} | {medium} | 50.0 | 70.0 | 60.0 | 90.0 |" in text
    assert "`medium`, both" in text
    assert "<!-- medium, forward -->" in (tmp_path / "blimp.svg").read_text()


def test_differences() -> None:
    """By hand: gains of 1, 2 and 3 have the mean 2 and the standard error 1 / √3, and the 97.5 %
    quantile of t with two degrees of freedom is 4.303."""
    first = [{"name": name} | dict.fromkeys(blimp.DIRECTIONS, 50.0) for name in "abc"]
    gains = zip("cab", (51.0, 52.0, 53.0))
    other = [{"name": name} | dict.fromkeys(blimp.DIRECTIONS, x) for name, x in gains]
    (text,) = blimp.differences_table({"small": first, "medium": other})
    assert "| `medium`, forward | 2.0 | -0.5 to 4.5 |" in text
    assert blimp.differences_table({"small": first}) == []


@pytest.mark.parametrize("scores", [None, [], scores_of(0)[:2]])
def test_scores_that_are_not_of_the_paradigms(
    add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: list[dict] | None
) -> None:
    """A misspelled path, or scores of other pairs, leave the results as they were."""
    if scores is not None:
        (tmp_path / "other").write_text("\n".join(map(json.dumps, scores)))
    arguments = ["small", "--scores", tmp_path / "other", "--results", tmp_path / "blimp.jsonl"]
    monkeypatch.setattr(sys, "argv", ["blimp", *map(str, arguments)])
    before = (tmp_path / "blimp.jsonl").read_text()
    with pytest.raises((OSError, ValueError), match=r"other|expected scores of the 3 paradigms"):
        blimp.main()
    assert (tmp_path / "blimp.jsonl").read_text() == before


def test_without_rows(tmp_path: Path) -> None:
    """A grid of one's own has no rows of BLiMP, so its page has no such sections."""
    assert blimp.sections(tmp_path, tmp_path) == {}
