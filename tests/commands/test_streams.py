"""Commands in processes whose standard streams are closed, or whose reader ends first."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from elmo_plugin.commands.runner import PROGRAM
from elmo_plugin.commands.streams import occupy_closed_streams, piped_output, printable
from tests.conftest import ROOT


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


WRITES = (
    "elmo text out --top --pretrained tiny",
    "bilm-encode text out",
    "bilm-export ARCHIVE out",
    "predict ARCHIVE text --output-file out",
    "elmo-configs out",
)
PRINTS = (
    "score text --archive-file ARCHIVE",
    "uses text <(echo dog) out --archive-file ARCHIVE",
    "bilm-encode text out",
)
STDIN = "elmo - out --top --archive-file ARCHIVE <&-"


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", WRITES)
def test_a_command_that_writes_files(command, closed, text, bilm_archive):
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "program", "expected", "message"),
    [
        ("elmo-mix ARCHIVE >&-", "elmo_plugin", 1, "stdout: expected it to be open"),
        (STDIN, "elmo_plugin", 1, "input_file: -: expected a text on stdin"),
        *((f"{x} | true", "elmo_plugin", 141, None) for x in PRINTS),
        *((f"{x} | true", "allennlp", 141, None) for x in PRINTS),
    ],
)
def test_a_closed_or_broken_stream(command, program, expected, message, text, bilm_archive):
    """By definition: one line on what is needed and closed. If the reader of the output ends first,
    the exit code is that of a program that SIGPIPE ends, 128 + 13, and no error is printed."""
    (text.parent / ".allennlp_plugins").write_text("elmo_plugin\n")
    command = command.replace("ARCHIVE", bilm_archive)
    code, printed = shell(f"PROGRAM {command}", text.parent, f"-m {program}")
    assert code == expected, printed
    assert "Broken" not in printed and "Traceback" not in printed
    if message is not None:
        assert printed.splitlines()[-1].startswith(f"{PROGRAM}: {message}"), printed
        assert not text.with_name("out").exists()


def test_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: the code is that of a shell, and streams that are open need no others."""
    n_open = len(list(Path("/dev/fd").iterdir()))
    occupy_closed_streams()
    assert len(list(Path("/dev/fd").iterdir())) == n_open
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match=f"^{128 + signal.SIGPIPE}$"), piped_output():
        raise BrokenPipeError


@pytest.mark.parametrize(
    "encoding, shown", [("ascii", r"caf\u00e9 \ud83d\ude00"), ("utf-8", "café 😀")]
)
def test_what_the_terminal_cannot_show(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: the escapes are those of JSON, which `score --format jsonl` prints."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        line = printable('"café 😀 \udc80"')
    assert line == f'"{shown} \\udc80"' and json.loads(line) == "café 😀 \udc80"
