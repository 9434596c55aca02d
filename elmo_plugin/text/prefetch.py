"""Prefetches windows in a thread, starting when the model first needs one."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch

Tensors = dict[str, torch.Tensor]

AHEAD = 8
"""Number of windows that the thread makes ahead."""


class Prefetcher:
    """
    Returns windows by number. `windows` yields those from a given number on. The thread starts at
    the first requested window. Later requests should be in order, because any other request
    restarts it at that window.
    """

    def __init__(self, windows: Callable[[int], Iterator[Tensors]]) -> None:
        self._windows = windows
        # Its thread does not refer to this object, so both end together.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bilm-windows")
        self._ahead: deque[Future[Tensors]] = deque()
        self._next: int | None = None

    def get(self, number: int) -> Tensors:
        """Return a window, or raise the error that occurred while making it."""
        if number != self._next:
            self._source = self._windows(number)
            self._ahead.clear()
        self._next = None  # after an error, the next request starts again
        while len(self._ahead) <= AHEAD:
            self._ahead.append(self._thread.submit(next, self._source))
        window = self._ahead.popleft().result()
        self._next = number + 1
        return window
