"""Commands in processes whose standard streams are closed, or whose reader ends first."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from elmo_plugin.commands.runner import PROGRAM
from tests.conftest import ROOT

pytestmark = pytest.mark.long


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("he threw the stick to the dog\n" * 3)
    return tmp_path / "text"


def shell(command: str, folder: Path, program: str = "-m elmo_plugin") -> tuple[int, str]:
    """The exit code of a command, in which PROGRAM is to be replaced, and what it printed."""
    command = command.replace("PROGRAM", f"{sys.executable} {program}")
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command",
    [
        "elmo text out --top --pretrained tiny",
        "bilm-encode text out",
        "bilm-export ARCHIVE out",
        "predict ARCHIVE text --output-file out",
        "elmo-configs out",
    ],
)
def test_a_command_that_writes_files(
    command: str, closed: str, text: Path, bilm_archive: str
) -> None:
    """By definition: the file is written, and nothing that is printed gets into it."""
    command = command.replace("ARCHIVE", bilm_archive)
    code, printed = shell(f"PROGRAM {command} {closed}", text.parent)
    assert code == 0 and "Error" not in printed, printed
    out = text.with_name("out")
    if command.startswith("predict"):
        assert [next(iter(json.loads(line))) for line in out.open()] == ["tokens"] * 3
    elif command.startswith("elmo text"):
        with h5py.File(out) as file:
            assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
    else:
        assert any(out.iterdir())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("elmo-mix ARCHIVE >&-", "stdout: expected it to be open"),
        ("elmo - out --top --archive-file ARCHIVE <&-", "input_file: -: expected a text on stdin"),
    ],
)
def test_a_stream_that_is_needed(command: str, message: str, text: Path, bilm_archive: str) -> None:
    """By definition: one line on what is closed, and no file."""
    code, printed = shell(f"PROGRAM {command.replace('ARCHIVE', bilm_archive)}", text.parent)
    assert code == 1
    assert printed.splitlines()[-1].startswith(f"{PROGRAM}: {message}"), printed
    assert list(text.parent.iterdir()) == [text]


@pytest.mark.parametrize("program", ["-m elmo_plugin", "-m allennlp"])
@pytest.mark.parametrize(
    "command",
    [
        "score text --archive-file ARCHIVE",
        "uses text <(echo dog) out --archive-file ARCHIVE",
        "bilm-encode text out",
    ],
)
def test_a_reader_that_ends_first(
    command: str, program: str, text: Path, bilm_archive: str
) -> None:
    """The exit code is that of a program that SIGPIPE ends, 128 + 13, and no error is printed."""
    (text.parent / ".allennlp_plugins").write_text("elmo_plugin\n")
    command = f"PROGRAM {command.replace('ARCHIVE', bilm_archive)} | true"
    code, printed = shell(command, text.parent, program)
    assert code == 141, printed
    assert "Broken" not in printed and "Traceback" not in printed
