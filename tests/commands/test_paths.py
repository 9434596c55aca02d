"""Paths of commands that are empty."""

from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.commands.runner import NAMES, PROGRAM, run_program
from tests.conftest import allennlp


@pytest.mark.parametrize(
    ("argument", "command"),
    [
        ("input_file", "elmo EMPTY out --top --pretrained tiny"),
        ("archive_file", "elmo text out --top --archive-file EMPTY"),
        ("options_file", "elmo text out --top --options-file EMPTY --weight-file text"),
        ("text", "score EMPTY --pretrained tiny"),
        ("output_file", "score text --pretrained tiny --output-file EMPTY"),
        ("text", "uses EMPTY text out"),
        ("archives", "elmo-mix EMPTY"),
        ("folder", "elmo-configs EMPTY"),
        ("text", "bilm-encode EMPTY out"),
        ("archive", "bilm-export EMPTY out"),
        ("files", "bilm-import EMPTY text text out"),
    ],
)
def test_an_empty_path(tmp_path, monkeypatch, argument, command):
    """The error names the argument. To most programs, an empty path is the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("the dog\n")
    arguments = command.replace("EMPTY", "").split(" ")
    message = f"{argument}: expected a value, found an empty one"
    with pytest.raises(InputError, match=f"^{message}$"):
        allennlp(*arguments)
    if arguments[0] in NAMES:
        assert run_program(arguments[0], arguments[1:]) == f"{PROGRAM}: {message}"
    assert [file.name for file in tmp_path.iterdir()] == ["text"]
