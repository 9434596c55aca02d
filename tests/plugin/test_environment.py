"""`tests/test_install.py` has the tests of `check_environment`."""

import sys

import pytest

from elmo_plugin.plugin.environment import warn_if_busy


@pytest.mark.parametrize(
    "load, command, threads, warns",
    [
        ("3.90 2.00 1.00 4/300 99", "train", None, True),
        ("3.90 2.00 1.00 4/300 99", "elmo", None, True),
        ("3.90 2.00 1.00 4/300 99", "predict", None, False),
        ("3.90 2.00 1.00 4/300 99", "train", "2", False),
        ("3.90 2.00 1.00 3/300 99", "train", None, False),  # a command has just ended
        ("1.90 2.00 1.00 9/300 99", "train", None, False),  # others start only now
    ],
)
def test_a_busy_machine_is_named(load, command, threads, warns, tmp_path, monkeypatch, caplog):
    """On four cores the limit is two: three threads run beside this process's own, or two. The
    file has the form that proc(5) documents."""
    path = tmp_path / "loadavg"
    path.write_text(load + "\n")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(sys, "argv", ["allennlp", command])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    warn_if_busy(str(path))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == warns
    for line in lines:
        assert "run 3 threads on 4 cores" in line and "OMP_NUM_THREADS=1" in line


def test_other_systems_have_no_such_file(tmp_path, monkeypatch, caplog):
    """Nothing is logged, and nothing is raised."""
    monkeypatch.setattr(sys, "argv", ["allennlp", "train"])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    warn_if_busy(str(tmp_path / "loadavg"))
    assert not caplog.records
