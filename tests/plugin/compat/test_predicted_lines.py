"""`allennlp predict` with the predictors `bilm` and `elmo` has an output for each line."""

import io
import json
import os
import sys

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.predictors.sentences import BiLMPredictor
from tests.conftest import allennlp

LINES = ["he threw the stick", '{"tokens": ["the", "dog"]}', "a\u2028b\rc", "{ 1 }", "."]
TOKENS = [["he", "threw", "the", "stick"], ["the", "dog"], ["a", "b", "c"], ["{", "1", "}"], ["."]]


def predict(bilm_archive: str, name: str, text: object, *arguments: object) -> None:
    allennlp("predict", bilm_archive, text, "--predictor", name, "--silent", *arguments)


def give_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))


@pytest.mark.parametrize("source", ["file", "stdin", "pipe"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_each_line_has_an_output(bilm_archive, tmp_path, monkeypatch, source, batch_size) -> None:
    """By hand: a line feed ends a line, and no other character does. An output that exists is
    replaced."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    out.write_text("old")
    give_stdin(monkeypatch, text.read_bytes().decode())
    path: object = {"file": text, "stdin": "-", "pipe": ""}[source]
    if source == "pipe":
        pipe, end = os.pipe()
        os.write(end, text.read_bytes())
        os.close(end)
        path = f"/dev/fd/{pipe}"
    predict(bilm_archive, "bilm", path, "--output-file", out, "--batch-size", batch_size)
    assert [json.loads(line)["tokens"] for line in out.read_text().splitlines()] == TOKENS
    assert {file.name for file in tmp_path.iterdir()} == {"text", "out"}


@pytest.mark.parametrize("name", ["bilm", "elmo"])
@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a sentence, found an empty line"),
        (" \u3000\t", "expected a sentence, found an empty line"),
        ('{"tokens": []}', "expected at least one token, found"),
        ('{"sentence', "expected JSON, found"),
    ],
)
def test_a_line_without_a_sentence(
    bilm_archive, tmp_path, monkeypatch, name, source, line, message
) -> None:
    """The error names the file and the line. An earlier output stays as it was. In a file, such a
    line is found before anything is computed."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text(f"he threw\nthe dog\n{line}\n.\n", "utf-8")
    out.write_text("old")
    if source == "stdin":
        give_stdin(monkeypatch, text.read_text("utf-8"))
    else:
        monkeypatch.setattr(BiLMPredictor, "predict_batch_json", None)
    path = "-" if source == "stdin" else text
    with pytest.raises(
        InputError, match=rf"^{'stdin' if path == '-' else text}, line 3: {message}"
    ):
        predict(bilm_archive, name, path, "--output-file", out, "--batch-size", 2)
    assert out.read_text() == "old"
    assert {file.name for file in tmp_path.iterdir()} == {"text", "out"}


def test_a_line_that_is_not_utf_8(bilm_archive, tmp_path, monkeypatch) -> None:
    """The error names the line, and not the archive, and there is no output."""
    bad = io.BytesIO(b"he threw\nthe \xff dog\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(bad, "utf-8"))
    with pytest.raises(InputError, match=r"^stdin, line 2: expected UTF-8, found the byte 0xff"):
        predict(bilm_archive, "bilm", "-", "--output-file", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["\n", "a\n\n", "\na\n"])
def test_blank_lines_at_both_ends(bilm_archive, tmp_path, text) -> None:
    """The number is that of the first blank line, counted from 1."""
    file = tmp_path / "text"
    file.write_text(text)
    number = 2 if text.startswith("a") else 1
    with pytest.raises(InputError, match=rf"text, line {number}: expected a sentence"):
        predict(bilm_archive, "bilm", file, "--output-file", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_dataset_reader_does_not_skip_lines(bilm_archive, tmp_path) -> None:
    """In training, a blank line is the border of two documents; here it would have no output."""
    out = tmp_path / "out"
    (tmp_path / "text").write_text("the dog\nhe threw\n")
    arguments = ("--use-dataset-reader", "--output-file", out)
    predict(bilm_archive, "bilm", tmp_path / "text", *arguments)
    assert len(out.read_text().splitlines()) == 2
    (tmp_path / "text").write_text("the dog\n\nhe threw\n")
    with pytest.raises(InputError, match=r"text, line 2: expected a sentence"):
        predict(bilm_archive, "bilm", tmp_path / "text", *arguments)
