"""The number of threads in a container, whose files are those that the kernel documents."""

from typing import NoReturn

import pytest

from elmo_plugin.commands import arguments, score
from elmo_plugin.commands.threads import limit_threads
from elmo_plugin.plugin import commands as plugin_commands
from tests.conftest import allennlp, write_file
from tests.plugin.models.test_training import config

VERSION_2 = "0::/a/b\n"
VERSION_1 = "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n"


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads that were set, on a machine with eight."""
    numbers: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    monkeypatch.setattr("torch.set_num_threads", numbers.append)
    return numbers


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (VERSION_2, {"a/b/cpu.max": "200000 100000"}, [2]),
        (VERSION_2, {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, [3]),
        (VERSION_2, {"a/b/cpu.max": "400000 100000", "cpu.max": "50000 100000"}, [1]),
        (VERSION_2, {"a/b/cpu.max": "170000 100000"}, [2]),
        (VERSION_2, {"a/b/cpu.max": "800000 100000"}, []),
        (VERSION_2, {"c/cpu.max": "100000 100000"}, []),  # of other processes
        (VERSION_1, {"cpu/a/b/cpu.cfs": "400000 100000"}, [4]),
        (VERSION_1, {"cpu/a/b/cpu.cfs": "-1 100000"}, []),
        (VERSION_1, {"cpu/cpu.cfs": "100000 50000"}, [2]),  # the path is that of the host
        (VERSION_1, {"memory/a/cpu.cfs": "100000 100000"}, []),
    ],
)
def test_the_quota(own, files, expected, numbers, tmp_path):
    """By hand: the least quota of the process's groups and of those above, as processors."""
    for name, text in files.items():
        if name.endswith("cfs"):
            for kind, number in zip(("quota", "period"), text.split()):
                write_file(tmp_path / "root" / f"{name}_{kind}_us", number + "\n")
        else:
            write_file(tmp_path / "root" / name, text + "\n")
    limit_threads(write_file(tmp_path / "own", own), tmp_path / "root")
    assert numbers == expected


def test_a_number_that_the_user_has_set(numbers, tmp_path, monkeypatch):
    """By definition. A system without such files has no quota either."""
    own = write_file(tmp_path / "own", VERSION_2)
    write_file(tmp_path / "a" / "b" / "cpu.max", "200000 100000\n")
    limit_threads(tmp_path / "gone", tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    limit_threads(own, tmp_path)
    assert numbers == []


def test_commands_that_compute_for_long(bilm_archive, tmp_path, monkeypatch):
    """Each of them looks at the quota before it computes. A command that computes nothing does
    not."""

    class Looked(Exception):
        pass

    def look() -> NoReturn:
        raise Looked

    for module in (arguments, score, plugin_commands):
        monkeypatch.setattr(module, "limit_threads", look)
    text = write_file(tmp_path / "text.txt", "the dog threw the stick .\n" * 8)
    config(tmp_path / "cache").to_file(str(tmp_path / "config.json"))
    model = "--archive-file", bilm_archive
    for command in (
        ("train", tmp_path / "config.json", "-s", tmp_path / "run"),
        ("find-lr", tmp_path / "config.json", "-s", tmp_path / "lr"),
        ("evaluate", bilm_archive, text),
        ("predict", bilm_archive, text, "--use-dataset-reader"),
        ("elmo", text, tmp_path / "vectors", "--top", *model),
        ("score", text, *model),
        ("uses", text, text, tmp_path / "uses", *model),
    ):
        with pytest.raises(Looked):
            allennlp(*command)
    allennlp("bilm-export", bilm_archive, tmp_path / "exported")
