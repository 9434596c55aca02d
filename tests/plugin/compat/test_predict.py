"""`allennlp predict` with closed standard streams, and its output file."""

import io
import sys
from pathlib import Path

import pytest
from allennlp.commands import predict
from allennlp.common import JsonDict
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError
from tests.conftest import allennlp


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("the dog\nthe dog\n")
    return tmp_path / "text"


@pytest.mark.parametrize("silent", [[], ["--silent"]])
def test_an_output_file_needs_no_standard_output(
    text: Path, bilm_archive: str, monkeypatch: pytest.MonkeyPatch, silent: list[str]
) -> None:
    """The oracle is the same command with standard output."""
    out = [text.with_name(name) for name in ("open", "closed")]
    allennlp("predict", bilm_archive, text, "--output-file", out[0], *silent)
    monkeypatch.setattr(sys, "stdout", None)
    allennlp("predict", bilm_archive, text, "--output-file", out[1], *silent)
    assert out[1].read_text() == out[0].read_text() != ""


@pytest.mark.parametrize(
    ("stream", "file", "options", "message"),
    [
        ("stdout", "text", [], "^stdout: expected it to be open for the result, found it closed$"),
        ("stdin", "-", [], "^input_file: -: expected a text on stdin, found it closed$"),
        (None, "text", ["--batch-size", 0], "^--batch-size: expected a whole number from 1"),
    ],
)
def test_what_cannot_be_predicted(
    text: Path,
    bilm_archive: str,
    monkeypatch: pytest.MonkeyPatch,
    stream: str | None,
    file: str,
    options: list,
    message: str,
) -> None:
    """By definition: one sentence, and no file."""
    out = text.with_name("out")
    if stream != "stdout":
        options = [*options, "--output-file", out]
    if stream is not None:
        monkeypatch.setattr(sys, stream, None)
    with pytest.raises(InputError, match=message):
        allennlp("predict", bilm_archive, text if file == "text" else file, *options)
    assert list(text.parent.iterdir()) == [text]


def test_an_output_file_is_whole_or_not_there(text: Path, bilm_archive: str) -> None:
    """By definition. The second line has a fault; AllenNLP writes the first one's prediction."""
    text.write_text('the dog\n{"sentence": 3}\n')
    options = ["--output-file", text.with_name("out"), "--batch-size", 1]
    with pytest.raises(InputError, match="sentence"):
        allennlp("predict", bilm_archive, text, *options)
    assert list(text.parent.iterdir()) == [text]


class Echo(Predictor):
    """Predicts its input."""

    def __init__(self) -> None:
        pass

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return inputs


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_blank_lines_of_other_predictors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """AllenNLP skips them, from a file and from standard input."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text('\n{"a": 1}\n\n \n{"a": 2}\n\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    path = str(text) if source == "file" else "-"
    predict._PredictManager(Echo(), path, str(out), 1, False, False).run()
    assert out.read_text() == '{"a": 1}\n{"a": 2}\n'


def test_a_device_as_output(text: Path, bilm_archive: str) -> None:
    """It is not replaced by a file."""
    allennlp("predict", bilm_archive, text, "--output-file", "/dev/null", "--silent")
    assert Path("/dev/null").is_char_device()
