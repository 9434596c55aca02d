"""Decides when the next checkpoint or validation is due, at the same step in all processes."""

import time

import torch.distributed as dist
from allennlp.common.util import is_distributed
from torch.distributed.distributed_c10d import _get_default_store

from elmo_plugin.plugin.training.checkpoint_files import Point


class IntervalClock:
    """
    Decides after each batch whether `seconds` have passed since `restart`, which never happens if
    they are `None`. The answer is the same in all processes.

    The first process's clock decides. When it is time, that process announces in the process
    group's key-value store, under a `key` for each clock, that all answer yes after the next batch.
    The others read the store after each batch. They cannot miss the announcement, because
    the batch ends when all gradients are exchanged, which the first process joins only after its
    announcement. A collective operation would instead wait for a process that has no data left.
    """

    def __init__(self, seconds: float | None, key: str) -> None:
        self._seconds = seconds
        self._key = key
        self._announces = is_distributed() and dist.get_rank() == 0
        self.restart()
        if self._announces:
            _get_default_store().set(self._key, "")

    def restart(self) -> None:
        """Restart the clock. Call this after each save or validation."""
        self._start = time.monotonic()

    def is_due(self, point: Point) -> bool:
        """Whether it is time. `point`: the current point in training, right after a batch."""
        if self._seconds is None:
            return False
        if not is_distributed():
            return self._is_old()
        store = _get_default_store()
        if store.get(self._key).decode() == str(point):
            return True
        if self._announces and self._is_old():
            store.set(self._key, str(point._replace(batches=point.batches + 1)))
            store.get(self._key)  # its answer confirms that the announcement is stored
        return False

    def _is_old(self) -> bool:
        return time.monotonic() - self._start >= self._seconds  # type: ignore[operator]
