"""Windows are made when the model asks for them, by a thread that works ahead of it."""

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]

AHEAD = 8
"""Number of windows that the thread makes ahead."""


class Prefetcher:
    """
    Gives windows by number. The first request starts the thread at that window. Later requests
    should come in order, because a window before the last one requested is made a second time.

    # Parameters

    windows : `Callable[[int], Iterator[Tensors]]`
        Makes the windows from a given number on.
    """

    def __init__(self, windows: Callable[[int], Iterator[Tensors]]) -> None:
        self._windows = windows
        self._ready: SimpleQueue[Tensors | Exception] = SimpleQueue()
        self._slots = threading.Semaphore(AHEAD)
        self._stop = threading.Event()
        self._next: int | None = None
        self._error: Exception | None = None
        # The thread refers to the queue and not to this object, so that it ends with this object.
        weakref.finalize(self, _stop, self._stop, self._slots)

    def get(self, number: int) -> Tensors:
        """Returns a window, or raises the error of making it or one before it."""
        if self._next is None:
            self._next = number
            threading.Thread(
                target=_work,
                args=(self._windows(number), self._ready, self._slots, self._stop),
                name="bilm-windows",
                daemon=True,
            ).start()
        if number < self._next:
            return next(self._windows(number))
        while self._error is None:
            window = self._ready.get()
            if isinstance(window, Exception):
                self._error = window
                break
            self._slots.release()
            self._next += 1
            if self._next > number:
                return window
        raise self._error


def _work(
    windows: Iterator[Tensors],
    ready: "SimpleQueue[Tensors | Exception]",
    slots: threading.Semaphore,
    stop: threading.Event,
) -> None:
    try:
        while True:
            slots.acquire()
            if stop.is_set():
                return
            ready.put(next(windows))
    except Exception as error:
        ready.put(error)


def _stop(stop: threading.Event, slots: threading.Semaphore) -> None:
    stop.set()
    slots.release()


class LazyWindow:
    """
    A window that is made when the model asks for its tensors. AllenNLP's trainer draws and discards
    the batches before the place where it resumes, which therefore costs nothing.

    # Parameters

    make : `Callable[[], Tensors]`
        Makes the tensors.
    """

    def __init__(self, make: Callable[[], Tensors]) -> None:
        self._make = make

    def __repr__(self) -> str:
        return "LazyWindow()"  # AllenNLP logs a sample of the first batch

    @cached_property
    def _tensors(self) -> Tensors:
        return self._make()

    def tensors(self, device: torch.device | None = None) -> Tensors:
        """The window's tensors, on `device`, or else on the CPU."""
        if device is None:
            return self._tensors
        # The consumer copies, so that the copies are queued on the stream that the model reads.
        return {key: x.to(device, non_blocking=True) for key, x in self._tensors.items()}

    def to_json(self) -> dict[str, list]:
        """The tensors as lists; AllenNLP writes them into an evaluation's file of predictions."""
        return {key: x.tolist() for key, x in self._tensors.items()}


class WindowIterator(Iterator[dict[str, Any]]):
    """
    Iterates over an epoch's batches `{"starts": Tensor, "window": LazyWindow}`. AllenNLP's log
    writers count a batch's rows by its first value, so `starts` comes first.

    # Parameters

    num_windows : `int`
        Number of windows in the epoch.
    windows : `Callable[[int], Iterator[Tensors]]`
        Makes the windows from a given number on.
    starts : `Callable[[int], Tensor]`
        Says which rows start again in the window of a given number. *Shape:* `(B,)` bool.
    """

    def __init__(
        self,
        num_windows: int,
        windows: Callable[[int], Iterator[Tensors]],
        starts: Callable[[int], torch.Tensor],
    ) -> None:
        self._num_windows = num_windows
        self._prefetcher = Prefetcher(windows)
        self._starts = starts
        self._next = 0

    def __next__(self) -> dict[str, Any]:
        number = self._next
        if number == self._num_windows:
            raise StopIteration
        self._next += 1
        window = LazyWindow(partial(self._prefetcher.get, number))
        return {"starts": self._starts(number), "window": window}

    def __len__(self) -> int:
        return self._num_windows
