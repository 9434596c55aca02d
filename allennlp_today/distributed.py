"""
A patch of distributed training, whose workers go on if their parent is stopped: after SIGTERM or
Ctrl-C, the parent waits for them forever, and after SIGKILL they get SIGINT from PyTorch, which
processes ignore that a shell started in the background. Now the parent stops its workers before it
ends, and workers whose parent is gone get SIGTERM. Remove it when AllenNLP's `train_model` stops
its workers.
"""

import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from allennlp.commands import train
from torch import multiprocessing
from torch.multiprocessing import _prctl_pr_set_pdeathsig  # type: ignore[attr-defined]


def spawn(function: Callable[..., None], args: tuple[Any, ...], nprocs: int) -> None:
    """Run a function in several processes, as PyTorch's `spawn` does, none of which survives."""
    # Looked up here, because tests let it fork.
    context = multiprocessing.spawn(_end_with_parent, (function, *args), nprocs, join=False)
    try:
        while not context.join():
            pass
    finally:
        for process in context.processes:
            process.terminate()


def _end_with_parent(rank: int, function: Callable[..., None], *args: Any) -> None:
    _prctl_pr_set_pdeathsig(signal.SIGTERM)
    function(rank, *args)


train.mp = SimpleNamespace(spawn=spawn)  # type: ignore[assignment]
