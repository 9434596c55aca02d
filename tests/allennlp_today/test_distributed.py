import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

WORKERS = """
import os, signal, time
from functools import partial
from pathlib import Path
from allennlp.common.util import install_sigterm_handler
from allennlp_today import distributed
distributed.multiprocessing.spawn = partial(
    distributed.multiprocessing.start_processes, start_method="fork"
)

def wait(rank):
    Path(f"{rank}.pid").write_text(f"{os.getpid()} ")
    time.sleep(600)

install_sigterm_handler()  # as in AllenNLP's own program
signal.signal(signal.SIGINT, signal.default_int_handler)  # which background processes ignore
distributed.spawn(wait, (), 2)
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_worker_survives_its_parent(sent: signal.Signals, tmp_path: Path) -> None:
    """A property: the parent ends with an error, and so does each worker."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", WORKERS], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    files = [tmp_path / f"{rank}.pid" for rank in range(2)]
    _wait_for(lambda: all(file.exists() and file.read_text().endswith(" ") for file in files))
    workers = [int(file.read_text()) for file in files]
    parent.send_signal(sent)
    assert parent.wait(60) != 0
    _wait_for(lambda: not any(map(_is_running, workers)))


def _wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_running(process: int) -> bool:
    """Whether it exists and is no zombie, which a container without an init does not remove."""
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
