import importlib
import os
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
from allennlp.common import Params

import elmo_plugin.plugin
from elmo_plugin.plugin.faster import busy_machine
from tests.conftest import allennlp
from tests.plugin.models.test_training import config

SENTENCES = '{"validation_data_loader": {"type": "multiprocess", "batch_size": 8}}'


@pytest.mark.parametrize(
    "load, threads, busy",
    [
        ("3.90 2.00 1.00 4/300 99", 4, True),
        ("3.90 2.00 1.00 4/300 99", 2, True),
        ("3.90 2.00 1.00 4/300 99", 1, False),  # it waits for no other
        ("2.50 2.00 1.00 4/300 99", 2, True),
        ("3.90 2.00 1.00 3/300 99", 2, False),  # two threads and the others' two have a core each
        ("3.90 2.00 1.00 3/300 99", 4, False),  # a command has just ended
        ("1.90 2.00 1.00 9/300 99", 4, False),  # others start only now
    ],
)
@pytest.mark.parametrize("variable", [False, True])
def test_a_busy_machine(load, threads, busy, variable, tmp_path, monkeypatch):
    """On four cores the limit is two: three threads run beside this process's own, or two. The
    number of threads counts, not who has set it. The file has the form that proc(5) documents."""
    path = tmp_path / "loadavg"
    path.write_text(load + "\n")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    calls = []
    monkeypatch.setattr(busy_machine, "do_not_spin", lambda: calls.append(True))
    busy_machine.do_not_spin_if_busy(str(path))
    assert len(calls) == busy


def test_other_systems_have_no_such_file(tmp_path, monkeypatch):
    """Nothing is done, and nothing is raised."""
    monkeypatch.setattr(busy_machine, "do_not_spin", pytest.fail)
    busy_machine.do_not_spin_if_busy(str(tmp_path / "loadavg"))


@pytest.fixture
def calls(monkeypatch):
    """Calls of `do_not_spin` on a machine that is busy."""
    calls = []
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr(busy_machine, "Path", lambda _: busy)
    monkeypatch.setattr(busy_machine, "do_not_spin", lambda: calls.append(True))
    return calls


busy = SimpleNamespace(read_text=lambda: "3.90 2.00 1.00 4/300 99")


def test_commands_that_compute_for_long(calls, bilm_archive, tmp_path):
    """Each of them calls it, once. A command that computes nothing does not."""
    text, words = tmp_path / "text.txt", tmp_path / "words.txt"
    text.write_text("the dog threw the stick .\n" * 8)
    words.write_text("dog\n")
    params = config(tmp_path / "cache").as_dict()
    params["trainer"].update(num_epochs=1, callbacks=[])
    Params(params).to_file(str(tmp_path / "config.json"))
    for n_calls, command in (
        (1, ("train", tmp_path / "config.json", "-s", tmp_path / "run")),
        (1, ("find-lr", tmp_path / "config.json", "-s", tmp_path / "lr", "--num-batches", 20)),
        (1, ("evaluate", bilm_archive, text, "-o", SENTENCES)),
        (1, ("predict", bilm_archive, text, "--use-dataset-reader", "--silent", "-o", SENTENCES)),
        (1, ("elmo", text, tmp_path / "vectors.hdf5", "--top", "--archive-file", bilm_archive)),
        (1, ("uses", text, words, tmp_path / "uses", "--archive-file", bilm_archive)),
        (0, ("bilm-export", bilm_archive, tmp_path / "exported")),
    ):
        calls.clear()
        with suppress(SystemExit):  # by which `predict` ends
            allennlp(*command)
        assert len(calls) == n_calls, command


def test_importing_the_plugin_starts_no_threads(calls, monkeypatch):
    """A program of another name may have the argument `train`."""
    monkeypatch.setattr(sys, "argv", ["prog", "train"])
    importlib.reload(elmo_plugin.plugin)
    assert not calls


SWITCHES = """
import resource
import sys
import torch
from elmo_plugin.plugin.faster.busy_machine import do_not_spin

if sys.argv[1] == "sleep":
    do_not_spin()
large, small = torch.ones(1 << 17), torch.ones(1 << 12)
large.add_(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
for _ in range(500):
    large.add_(1)  # by several threads
    for _ in range(20):
        small.add_(1)  # by one, for which the others wait
print(resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two cores"
)
def test_threads_sleep_while_they_wait():
    """The kernel counts how often a process gives up its core by itself (getrusage(2)): for a
    thread that waits 500 times, about 500 times if it sleeps, and hardly ever if it spins. It spins
    for a while only, so that one that waits for a core sleeps too: the best of three counts."""

    def switches(how: str) -> int:
        command = [sys.executable, "-W", "ignore", "-c", SWITCHES, how]
        without = {key: x for key, x in os.environ.items() if not key.startswith("OMP_")}
        return int(subprocess.check_output(command, env=without))

    assert switches("sleep") > 450
    assert any(switches("spin") < 250 for _ in range(3))
