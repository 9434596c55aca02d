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
from tests.conftest import ROOT, python, without, write_file
from tests.test_line import ABSENT

NOT_INSTALLED = f"import sys, elmo_plugin; sys.modules.update(dict.fromkeys({ABSENT}))\n"

RUN = """
import json, sys
from elmo_plugin.__main__ import run

for arguments in json.loads(sys.argv[1]):
    end = run(arguments)
    print(json.dumps([arguments[0], end, "allennlp" in sys.modules]))
"""


def ends(commands: list[list[str]], folder: Path, before: str = "") -> dict[str, list]:
    """How each command ended, and whether AllenNLP was imported by then."""
    printed = python("-c", before + RUN, json.dumps(commands), folder=folder).stdout.splitlines()
    found = [json.loads(line) for line in printed if line.startswith("[")]
    return {name: rest for name, *rest in found}


def test_no_command_imports_allennlp(tmp_path: Path, bilm_archive: str) -> None:
    """By the list of Python, also where AllenNLP is installed, whose import takes seconds. The
    files of results are the same with AllenNLP and without."""
    (tmp_path / "run").mkdir()
    mix = {"elmo.scalar_mix_0.gamma": torch.tensor([1.5])}
    torch.save(mix, tmp_path / "run" / "best.th")
    model = ["--archive-file", bilm_archive]
    commands = [
        ["elmo", "text", "vectors", "--top", *model],
        ["score", "text", "--output-file", "scores", *model],
        ["uses", "text", "words", "uses", *model],
        ["bilm-encode", "text", "corpus"],
        ["bilm-export", bilm_archive, "files"],
        ["elmo-mix", str(tmp_path / "run")],
        ["elmo-configs", "configs"],
    ]
    assert [command[0] for command in commands] == NAMES
    results: list[list[bytes]] = []
    for name, before in (("with", ""), ("without", without(*ABSENT, "pandas"))):
        folder = tmp_path / name
        write_file(folder / "text", "the dog\nhe threw the stick .\n")
        write_file(folder / "words", "dog\n")
        assert ends(commands, folder, before) == {name: [None, False] for name in NAMES}
        assert all((folder / x).is_dir() for x in ("corpus", "files", "configs"))
        results.append([(folder / x).read_bytes() for x in ("vectors", "scores", "uses")])
    assert results[0] == results[1]


def test_an_error_without_allennlp(tmp_path: Path) -> None:
    """By definition: one line that names the file, or the package that it needs."""
    (tmp_path / "text").write_bytes(b"\x28\xb5\x2f\xfd")  # of zstandard
    for text, message in (("gone", "expected"), ("text", "expected the package zstandard")):
        commands = [["score", text, "--pretrained", "tiny"]]
        [(end, _)] = ends(commands, tmp_path, without(*ABSENT, "pandas")).values()
        assert end.startswith(f"{PROGRAM}: {text}: {message}")


@pytest.mark.parametrize("address", ["docs://train", "task://config.jsonnet#train_data_path"])
def test_an_address_that_needs_allennlp(tmp_path: Path, address: str) -> None:
    """By definition: the error names the address and says what to install."""
    commands = [
        ["elmo", address, "out", "--top", "--pretrained", "tiny"],
        ["score", address, "--pretrained", "tiny"],
        ["uses", address, "words", "out", "--pretrained", "tiny"],
        ["bilm-encode", address, "out"],
    ]
    (tmp_path / "words").write_text("dog\n")
    for end, _ in ends(commands, tmp_path, NOT_INSTALLED).values():
        assert end.startswith(f"{PROGRAM}: {address}: to read this address, elmo_plugin needs ")
        assert "pip install 'elmo_plugin[allennlp]'" in end


def test_without_allennlp(tmp_path: Path) -> None:
    """By definition: who has just installed the package sees the version and, as help, what there
    is, and that the rest needs AllenNLP. So does the error of a command of AllenNLP. `python` fails
    unless the status is 0, and the package has two folders of models."""
    rest = f"without AllenNLP, there are {', '.join(NAMES)}; models: "
    [(end, _)] = ends([["train", "config.jsonnet"]], tmp_path, NOT_INSTALLED).values()
    assert end.startswith(f"{PROGRAM}: elmo_plugin needs allennlp: pip install 'elmo_plugin[")
    assert f"; {rest}" in end and end.endswith("small, tiny")
    code = "import sys; from elmo_plugin.__main__ import run; sys.exit(run(sys.argv[1:]))"
    for arguments in ([], ["--help"], ["--version"]):
        printed = " ".join(python("-c", NOT_INSTALLED + code, *arguments).stdout.split())
        assert f"elmo_plugin {VERSION}" in printed
        if arguments != ["--version"]:
            assert "elmo_plugin needs allennlp: pip" in printed
            assert rest in printed and printed.endswith("small, tiny")


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
