"""The page of BLiMP, and the text that is joined and split again."""

import json
import sys
from pathlib import Path

import pytest

from experiments import blimp, raw_text
from experiments.rows import read_rows


def test_the_page_is_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the page in the repository, from the results in the repository, and the same
    picture."""
    page, picture = tmp_path / "blimp.md", tmp_path / "blimp.svg"
    page.write_text(blimp.PAGE.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(sys, "argv", ["blimp", "--page", str(page), "--picture", str(picture)])
    blimp.main()
    assert page.read_text("utf-8") == blimp.PAGE.read_text("utf-8")
    assert picture.read_bytes() == blimp.PICTURE.read_bytes()


def test_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, from three paradigms of two phenomena, and the published accuracies in percent."""
    directions = {"forward": 60.0, "backward": 70.0, "both": 80.0}
    rest = {f"{d}_ties": 0.0 for d in directions} | {f"{d}_known": None for d in directions}
    scores = [
        {"level": "paradigm", "name": name, "phenomenon": term, "pairs": 10, "unknown_pairs": 1}
        | {key: value + shift for key, value in directions.items()}
        | rest
        for name, term, shift in (("a", "x_y", 0), ("b", "x_y", 10), ("c", "z", 2))
    ]
    scores[2] |= {f"{d}_known": 50.0 for d in directions}
    scores.append({"level": "all"})
    published = [
        {"UID": name, "ngram": 0.5, "lstm": lstm, "txl": 0.6, "gpt2": 0.9}
        for name, lstm in (("a", 0.7), ("b", 0.8), ("c", 0.6))
    ]
    page, files = tmp_path / "page.md", [tmp_path / "scores", tmp_path / "published"]
    for file, rows in zip(files, (scores, published)):
        file.write_text("\n".join(map(json.dumps, rows)))
    marks = "".join(f"<!-- {x} -->\n<!-- end of {x} -->\n" for x in ("phenomena", "unknown"))
    page.write_text(f"{marks}<!-- paradigms -->\nold\n<!-- end of paradigms -->\n")
    arguments = ["--scores", files[0], "--published", files[1], "--results", tmp_path / "rows"]
    arguments += ["--page", page, "--picture", tmp_path / "picture.svg"]
    monkeypatch.setattr(sys, "argv", ["blimp", *map(str, arguments)])
    blimp.main()
    text = page.read_text()
    assert "| x y | 2 | 65.0 | 75.0 | 85.0 | 50.0 | 75.0 | 60.0 | 90.0 |" in text
    assert "| all | 3 | 64.0 | 74.0 | 84.0 | 50.0 | 70.0 | 60.0 | 90.0 |" in text
    assert "| `c` | 62.0 | 72.0 | 82.0 | 50.0 | 60.0 | 60.0 | 90.0 |" in text
    assert "3 of 30 pairs." in text and "| forward | 64.0 | 50.0 | 0.00 |" in text
    assert "old" not in text
    assert [row["name"] for row in read_rows(tmp_path / "rows")] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="expected a page with <!-- phenomena -->"):
        blimp.with_tables("nothing", {"phenomena": ""})


def test_joined_and_split_again(tmp_path: Path) -> None:
    """By hand: quotes open and close in turns. A period within a sentence is not split off, so the
    last of the sentences has another token of eight."""
    tokens = '" Yes , " he said , " it is n\'t ( $ 5 ) . "'.split()
    assert raw_text.join(tokens) == '"Yes," he said, "it isn\'t ($5)."'
    last = "He ran . She sat there , too"
    (tmp_path / "text").write_text("\n".join([" ".join(tokens), " ".join(tokens), last]))
    n, sentences, changed = raw_text.shares(tmp_path / "text")
    assert n == 3 and sentences == pytest.approx(100 / 3)
    assert changed == pytest.approx(100 * 2 / (2 * len(tokens) + 8))
