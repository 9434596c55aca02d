"""`allennlp predict` with the predictors `bilm` and `elmo` has an output for each line."""

import io
import json
import os
import re
import sys

import pytest
from allennlp.commands.predict import _PredictManager
from allennlp.common import JsonDict
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError
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
    """By hand: a line feed ends a line, and no other character does."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_bytes("".join(f"{line}\n" for line in LINES).encode())
    give_stdin(monkeypatch, text.read_bytes().decode())
    path: object = {"file": text, "stdin": "-", "pipe": ""}[source]
    if source == "pipe":
        pipe, end = os.pipe()
        os.write(end, text.read_bytes())
        os.close(end)
        path = f"/dev/fd/{pipe}"
    predict(bilm_archive, "bilm", path, "--output-file", out, "--batch-size", batch_size)
    assert [json.loads(line)["tokens"] for line in out.read_text().splitlines()] == TOKENS


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_a_byte_order_mark(bilm_archive, tmp_path, monkeypatch, source) -> None:
    """Windows saves it at the beginning of a text. Elsewhere U+FEFF is a character, as `str.split`
    has it. The oracle is Python's codec for such texts."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_bytes("he threw\n\ufeffthe dog\n".encode("utf-8-sig"))
    give_stdin(monkeypatch, text.read_bytes().decode())
    path = "-" if source == "stdin" else text
    predict(bilm_archive, "bilm", path, "--output-file", out)
    found = [json.loads(line)["tokens"] for line in out.read_text().splitlines()]
    assert found == [line.split() for line in text.read_text("utf-8-sig").splitlines()]


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
    """The error names the file and the line."""
    text = tmp_path / "text"
    text.write_text(f"he threw\nthe dog\n{line}\n.\n", "utf-8")
    give_stdin(monkeypatch, text.read_text("utf-8"))
    path = "-" if source == "stdin" else text
    with pytest.raises(
        InputError, match=rf"^{'stdin' if path == '-' else text}, line 3: {message}"
    ):
        predict(bilm_archive, name, path, "--output-file", os.devnull, "--batch-size", 2)


def test_a_table_is_refused_by_its_name(bilm_archive, tmp_path) -> None:
    """As by the other commands (tests/text/test_other_formats.py), because its lines are none."""
    (table := tmp_path / "stimuli.csv").write_text("item,sentence\n1,he threw\n")
    with pytest.raises(InputError, match=r"stimuli\.csv: expected text, .* the name of a table"):
        predict(bilm_archive, "bilm", table, "--output-file", os.devnull)


def test_a_line_that_is_not_utf_8(bilm_archive, monkeypatch) -> None:
    """The error names the line, and not the archive."""
    bad = io.BytesIO(b"he threw\nthe \xff dog\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(bad, "utf-8"))
    with pytest.raises(InputError, match=r"^stdin, line 2: expected UTF-8, found the byte 0xff"):
        predict(bilm_archive, "bilm", "-", "--output-file", os.devnull)


@pytest.mark.parametrize("text", ["\n", "a\n\n", "\na\n"])
def test_blank_lines_at_both_ends(bilm_archive, tmp_path, text) -> None:
    """The number is that of the first blank line, counted from 1."""
    file = tmp_path / "text"
    file.write_text(text)
    number = 2 if text.startswith("a") else 1
    with pytest.raises(InputError, match=rf"text, line {number}: expected a sentence"):
        predict(bilm_archive, "bilm", file, "--output-file", os.devnull)


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


class Echo(Predictor):
    """Predicts its input."""

    def __init__(self) -> None:
        pass

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return inputs


def test_blank_lines_of_other_predictors(tmp_path, capsys) -> None:
    """AllenNLP skips them."""
    text = tmp_path / "text"
    text.write_text('\n{"a": 1}\n\n \n{"a": 2}\n\n')
    _PredictManager(Echo(), str(text), None, 1, True, False).run()
    printed = re.findall("prediction: +(.*)", capsys.readouterr().out)
    assert printed == ['{"a": 1}', '{"a": 2}']
