"""Decides when the next checkpoint or validation is due, at the same step in all processes."""

import time
from typing import Optional

import torch.distributed as dist
from allennlp.common.util import is_distributed
from torch.distributed.distributed_c10d import _get_default_store

from elmo_plugin.plugin.training.checkpoint_files import Point


class SaveClock:
    """
    Decides after each batch whether to save, which never happens if `seconds` is `None`. All
    processes save after the same batch.

    The first process's clock decides. When it is time, that process announces in the process
    group's key-value store, under a `key` for each clock, that all processes save after the next
    batch. The others read the store after each batch. They cannot miss the announcement, because
    the batch ends when all gradients are exchanged, which the first process joins only after its
    announcement. A collective operation would instead wait for a process that has no data left.
    """

    def __init__(self, seconds: Optional[float], key: str = "elmo_plugin/next_save") -> None:
        self._seconds = seconds
        self._key = key
        self._is_first = not is_distributed() or dist.get_rank() == 0
        self.restart()
        if is_distributed() and self._is_first:
            _get_default_store().set(self._key, "")

    def restart(self) -> None:
        """Restart the clock. Call this after each save."""
        self._last_save = time.monotonic()

    def is_time_to_save(self, point: Point) -> bool:
        """Whether to save now. `point`: the current point in training, right after a batch."""
        if self._seconds is None:
            return False
        if not is_distributed():
            return self._is_old()
        store = _get_default_store()
        if store.get(self._key).decode() == str(point):
            return True
        if self._is_first and self._is_old():
            store.set(self._key, str(point._replace(batches=point.batches + 1)))
            store.get(self._key)  # its answer confirms that the announcement is stored
        return False

    def _is_old(self) -> bool:
        return time.monotonic() - self._last_save >= self._seconds  # type: ignore[operator]
