import os
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from allennlp.commands.train import TrainModel
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import install_sigterm_handler

from allennlp_today import distributed


def wait(rank: int, folder: Path) -> None:
    (folder / f"{rank}.pid").write_text(f"{os.getpid()} ")
    time.sleep(600)


def parent(folder: Path) -> None:
    install_sigterm_handler()  # as in AllenNLP's own program
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which background processes ignore
    fork = partial(distributed.multiprocessing.start_processes, start_method="fork")
    distributed.multiprocessing.spawn = fork
    distributed.spawn(wait, (folder,), 2)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_worker_survives_its_parent(sent: signal.Signals, tmp_path: Path) -> None:
    """A property: the parent ends with an error, and so does each worker. All of them are forked,
    because importing AllenNLP takes longer than the test."""
    process = get_context("fork").Process(target=parent, args=(tmp_path,))
    process.start()
    assert process.pid is not None
    files = [tmp_path / f"{rank}.pid" for rank in range(2)]
    _wait_for(lambda: all(file.exists() and file.read_text().endswith(" ") for file in files))
    workers = [int(file.read_text()) for file in files]
    os.kill(process.pid, sent)
    process.join(60)
    assert process.exitcode
    _wait_for(lambda: not any(map(_is_running, workers)))


def test_a_weight_of_batches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition, before the training, which the trainer here cannot do. What evaluates is
    compared in tests/plugin/training/test_optimizer.py."""
    monkeypatch.setattr(distributed, "is_distributed", lambda: True)
    given = {"evaluate_on_test": True, "evaluation_data_loader": [], "batch_weight_key": "n"}
    with pytest.raises(ConfigurationError, match=r"^batch_weight_key: .* found n$"):
        TrainModel.run(SimpleNamespace(trainer=None, **given))  # type: ignore[arg-type]


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
