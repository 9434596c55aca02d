"""
Lets the threads of commands that compute for long sleep while they wait for one another, on a
machine that other programs use. GNU OpenMP's threads wait for milliseconds in a loop, which takes
the core from the very thread that they wait for if other programs use the other cores
(docs/speed.md, "On a busy machine").
"""

import logging
import os
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import torch
from allennlp.commands import evaluate, find_learning_rate, predict, train

logger = logging.getLogger(__name__)


def do_not_spin_if_busy(load_file: str = "/proc/loadavg") -> None:
    """Call `do_not_spin` if other programs now use more than half of the cores, and leave fewer
    than there are threads."""
    try:  # "1.52 1.20 0.80 3/345 9876": the last minute's average, and the threads that run now
        average, _, _, running, _ = Path(load_file).read_text().split()
    except OSError:  # not Linux
        return
    # The average alone may be that of a command that has just ended; this process runs too.
    load = min(float(average), int(running.partition("/")[0]) - 1)
    cores = os.cpu_count() or 1
    if torch.get_num_threads() > 1 and load > max(cores / 2, cores - torch.get_num_threads()):
        do_not_spin()
        logger.info(
            "Other programs run %g threads on %d cores, so threads do not spin", load, cores
        )


@cache
def do_not_spin() -> None:
    """
    Let PyTorch's threads sleep while they wait for one another, from now on.

    They spin hardly at all in a process that has more OpenMP threads than there are cores, so this
    starts more teams, which sleep. Results keep their bits, as they would not with fewer threads.
    """
    # OpenMP counts one thread less for each team, whose first is not its own.
    for _ in range(((os.cpu_count() or 1) - 1) // (torch.get_num_threads() - 1)):
        threading.Thread(
            target=_sleeping_team, args=(ready := threading.Event(),), daemon=True
        ).start()
        ready.wait()


def _sleeping_team(ready: threading.Event) -> None:
    torch.ones(1 << 20).add_(1)  # long enough for several threads, which this one keeps
    ready.set()
    threading.Event().wait()


def _without_spinning(compute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compute)
    def run(*args: Any, **kwargs: Any) -> Any:
        do_not_spin_if_busy()
        return compute(*args, **kwargs)

    return run


def apply() -> None:
    # Each process of distributed training calls this method, and only one the command's function.
    train.TrainModel.run = _without_spinning(train.TrainModel.run)  # type: ignore[method-assign]
    for module, name in (
        (evaluate, "evaluate_from_args"),
        (predict, "_predict"),
        (find_learning_rate, "find_learning_rate_from_args"),
    ):
        setattr(module, name, _without_spinning(getattr(module, name)))
