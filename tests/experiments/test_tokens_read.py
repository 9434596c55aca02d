"""Perplexity over the tokens read; tests/experiments/test_perplexity.py has the numbers' oracle."""

import sys
from pathlib import Path

import pytest
from allennlp.common.file_utils import cached_path

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.text import corpus_cache
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import tokens_read
from experiments.perplexity import perplexity
from experiments.rows import read_rows


def test_rows_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one vocabulary file the perplexity is the plain one. A repeated command replaces its
    rows, and the picture names all texts and runs, and the models if there are several."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    monkeypatch.setattr(tokens_read, "FILE", tmp_path / "rows.jsonl")
    monkeypatch.setattr(tokens_read, "PICTURE", tmp_path / "picture.svg")
    heldout = tmp_path / "heldout"
    heldout.mkdir()
    (heldout / "news.txt").write_text("the dog .\nhe threw the stick .\n")
    (heldout / "novels.txt").write_text("to the dog\n")
    options = ["--heldout", str(heldout), "--words", pretrained_files("tiny").vocabulary_file]

    def measure(model: str, read: str, name: str) -> None:
        command = ["tokens_read", f"{model}=pretrained://tiny", "--read", read, "--run", name]
        monkeypatch.setattr(sys, "argv", [*command, *options])
        tokens_read.main()

    for read, name in (("1.5", "one"), ("3", "one"), ("4", "other"), ("4", "other")):
        measure("tiny", read, name)
    rows = read_rows(tokens_read.FILE)
    assert [(row["settings"]["millions"], row["settings"]["text"]) for row in rows] == [
        (read, text) for read in (1.5, 3.0, 4.0) for text in ("news", "novels")
    ]
    model = load_language_model(cached_path("pretrained://tiny"))
    expected = perplexity(model, open_corpus(heldout / "news.txt"), "warm")
    assert rows[0]["metrics"]["perplexity"] == pytest.approx(expected.joint, rel=1e-5)
    picture = tokens_read.PICTURE.read_text()
    for name in ("news", "novels", "one", "other"):
        assert f">{name}</text>" in picture
    measure("again", "4", "other")
    assert [row["bilm"] for row in read_rows(tokens_read.FILE)] == ["tiny"] * 6 + ["again"] * 2
    assert ">again: news</text>" in tokens_read.PICTURE.read_text()


def test_unknown_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of the five tokens, one file lacks `stick`, the other `dog`, which occurs twice."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    (tmp_path / "news.txt").write_text("the dog .\ndog stick\n")
    special = "<S>\n</S>\n<UNK>\n"
    files = [str(tmp_path / name) for name in ("one.vocabulary", "other.vocabulary")]
    for file, words in zip(files, ("the\ndog\n.\n", "the\nstick\n.\n")):
        Path(file).write_text(special + words)
    lines = tokens_read.unknown_table(tmp_path, files).splitlines()
    assert lines[0] == "| words of | number | news |"
    cells = [line.split(" | ")[1:] for line in lines[2:]]
    assert cells == [["6", "20.0 |"], ["6", "40.0 |"], ["5", "60.0 |"]]


def test_picture_of_many_runs() -> None:
    """All points are drawn, of runs at the same number of tokens too, and of more than five."""
    rows = [
        {
            "bilm": "small",
            "settings": {"run": f"run {k}", "millions": 1.0 + k // 2, "text": "dev"},
            "metrics": {"perplexity": 40.0 + k},
        }
        for k in range(6)
    ]
    line, *points = tokens_read.picture(rows).axes[0].lines
    assert list(zip(*line.get_data())) == [(1.0 + k // 2, 40.0 + k) for k in range(6)]
    assert [point.get_ydata()[0] for point in points[:6]] == [40.0 + k for k in range(6)]


def test_a_folder_without_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["tokens_read", "tiny=pretrained://tiny", "--read", "3", "--words", "words.txt"]
    monkeypatch.setattr(sys, "argv", [*command, "--heldout", str(tmp_path / "gone")])
    with pytest.raises(InputError, match=r"--heldout: .*gone: expected \*\.txt files"):
        tokens_read.main()


def test_a_model_needs_its_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tokens_read", "tiny=pretrained://tiny", "--read", "3"])
    with pytest.raises(SystemExit):
        tokens_read.main()
    assert "expected --read, --heldout and --words" in capsys.readouterr().err
