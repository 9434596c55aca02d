"""`tests/test_install.py` has the tests of `check_environment`."""

import os
import subprocess
import sys

import pytest

from elmo_plugin.plugin import environment


@pytest.mark.parametrize(
    "load, command, threads, busy",
    [
        ("3.90 2.00 1.00 4/300 99", "train", None, True),
        ("3.90 2.00 1.00 4/300 99", "elmo", None, True),
        ("3.90 2.00 1.00 4/300 99", "predict", None, False),
        ("3.90 2.00 1.00 4/300 99", "train", "2", False),
        ("3.90 2.00 1.00 3/300 99", "train", None, False),  # a command has just ended
        ("1.90 2.00 1.00 9/300 99", "train", None, False),  # others start only now
    ],
)
def test_a_busy_machine(load, command, threads, busy, tmp_path, monkeypatch):
    """On four cores the limit is two: three threads run beside this process's own, or two. The
    file has the form that proc(5) documents."""
    path = tmp_path / "loadavg"
    path.write_text(load + "\n")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["allennlp", command])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    calls = []
    monkeypatch.setattr(environment, "do_not_spin", lambda: calls.append(True))
    environment.do_not_spin_if_busy(str(path))
    assert len(calls) == busy


def test_other_systems_have_no_such_file(tmp_path, monkeypatch):
    """Nothing is done, and nothing is raised."""
    monkeypatch.setattr(sys, "argv", ["allennlp", "train"])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(environment, "do_not_spin", pytest.fail)
    environment.do_not_spin_if_busy(str(tmp_path / "loadavg"))


SWITCHES = """
import resource
import sys
import torch
from elmo_plugin.plugin.environment import do_not_spin

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
        without = {key: x for key, x in os.environ.items() if key != "OMP_NUM_THREADS"}
        return int(subprocess.check_output(command, env=without))

    assert switches("sleep") > 450
    assert any(switches("spin") < 250 for _ in range(3))
