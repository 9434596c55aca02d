"""Commands in a process of their own, in which AllenNLP is installed or not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo_plugin.commands.runner import NAMES, PROGRAM
from elmo_plugin.version import VERSION
from tests.conftest import ROOT, python, write_file
from tests.test_line import ABSENT

MISSING = [*ABSENT, "pandas"]
NOT_INSTALLED = f"import sys, elmo_plugin; sys.modules.update(dict.fromkeys({MISSING}))\n"
RUN = """
import contextlib, io, json, sys
from elmo_plugin.__main__ import run

found = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        end = run(arguments)
    found.append([end, bool(sys.modules.get("allennlp")), " ".join(printed.getvalue().split())])
print(json.dumps(found))
"""

COMMANDS = (
    "elmo text vectors --top --archive-file ARCHIVE",
    "score text --output-file scores --archive-file ARCHIVE",
    "uses text words uses --archive-file ARCHIVE",
    "bilm-encode text corpus",
    "bilm-export ARCHIVE files",
    "elmo-mix run",
    "elmo-configs configs",
)
WITHOUT = f"without AllenNLP, there are {', '.join(NAMES)}; models: "
TASK = "task://config.jsonnet#train_data_path"
FAIL = {
    "score gone --pretrained tiny": "gone: expected",
    "score packed --pretrained tiny": "packed: expected the package zstandard",
    "elmo docs://train out --top --pretrained tiny": "docs://train: to read this address, elmo_",
    "score docs://train --pretrained tiny": "docs://train: to read this address, elmo_plugin needs",
    f"uses {TASK} words out --pretrained tiny": f"{TASK}: to read this address, elmo_plugin needs",
    f"bilm-encode {TASK} out": f"{TASK}: to read this address, elmo_plugin needs",
    "train config.jsonnet": "elmo_plugin needs allennlp: pip install 'elmo_plugin[allennlp]'",
}
"""Commands, and how their errors begin where AllenNLP is not installed."""
PRINT = "", "--help", "--version"


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> list[tuple]:
    """The folder of a process with AllenNLP and of one without, and how each command ended there:
    its end, whether AllenNLP was imported by then, and what was printed."""
    found = []
    for before in ("", NOT_INSTALLED):
        folder = tmp_path_factory.mktemp("folder")
        write_file(folder / "text", "the dog\nhe threw the stick .\n")
        write_file(folder / "words", "dog\n")
        write_file(folder / "packed", b"\x28\xb5\x2f\xfd")  # of zstandard
        (folder / "run").mkdir()
        mix = {"elmo.scalar_mix_0.gamma": torch.tensor([1.5])}
        torch.save(mix, folder / "run" / "best.th")
        commands = [*COMMANDS, *FAIL, *PRINT] if before else COMMANDS
        given = [command.replace("ARCHIVE", bilm_archive).split() for command in commands]
        done = python("-c", before + RUN, json.dumps(given), folder=folder)
        found.append((folder, dict(zip(commands, json.loads(done.stdout.splitlines()[-1])))))
    return found


def test_no_command_imports_allennlp(ends: list[tuple]) -> None:
    """By the list of Python, also where AllenNLP is installed, whose import takes seconds. The
    files of results are the same with AllenNLP and without."""
    assert [command.partition(" ")[0] for command in COMMANDS] == NAMES
    results: list[list[bytes]] = []
    for folder, end_of in ends:
        assert [end_of[command][:2] for command in COMMANDS] == [[None, False]] * len(NAMES)
        assert all((folder / x).is_dir() for x in ("corpus", "files", "configs"))
        results.append([(folder / x).read_bytes() for x in ("vectors", "scores", "uses")])
    assert results[0] == results[1]


@pytest.mark.parametrize("command", FAIL)
def test_an_error_without_allennlp(ends: list[tuple], command: str) -> None:
    """By definition: one line that names the file, the address or the package that it needs, and
    what to install. That of a command of AllenNLP lists what there is without it."""
    end, *_ = ends[1][1][command]
    assert end.startswith(f"{PROGRAM}: {FAIL[command]}")
    if "gone" not in command and "packed" not in command:
        assert "pip install 'elmo_plugin[allennlp]'" in end
    if command.startswith("train"):
        assert f"; {WITHOUT}" in end and end.endswith("small, tiny")


@pytest.mark.parametrize("command", PRINT)
def test_help_without_allennlp(ends: list[tuple], command: str) -> None:
    """By definition: who has just installed the package sees the version and, as help, what there
    is, and that the rest needs AllenNLP. The package has two folders of models."""
    end, _, printed = ends[1][1][command]
    assert end is None and f"elmo_plugin {VERSION}" in printed
    if command != "--version":
        assert "elmo_plugin needs allennlp: pip" in printed
        assert WITHOUT in printed and printed.endswith("small, tiny")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal(tmp_path: Path, number: int, code: int) -> None:
    """The exit codes are those of shells, and nothing is left of the output."""
    os.mkfifo(tmp_path / "text")
    arguments = ["elmo", "text", "out", "--top", "--pretrained", "tiny"]
    process = subprocess.Popen(
        [sys.executable, "-m", "elmo_plugin", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        # Shells let their background processes, and the children of these, ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with open(tmp_path / "text", "w"):  # which waits until the command reads it
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in printed
    assert not (tmp_path / "out").exists()
