"""Windows that are filled when they are looked into, by a thread that works ahead of the model."""

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from queue import SimpleQueue

import torch

Tensors = dict[str, torch.Tensor]

AHEAD = 8
"""How many windows are kept ready."""


class Prefetcher:
    """
    Gives batches by number. The first that is asked for starts the thread, there; from then on
    batches are best asked for in order, for one that has passed is made anew.

    # Parameters

    batches : `Callable[[int], Iterator[Tensors]]`
        Makes the batches from a given number on.
    """

    def __init__(self, batches: Callable[[int], Iterator[Tensors]]) -> None:
        self._batches = batches
        self._ready: SimpleQueue[Tensors | Exception] = SimpleQueue()
        self._slots = threading.Semaphore(AHEAD)
        self._stop = threading.Event()
        self._next: int | None = None
        self._error: Exception | None = None
        # The thread knows the queue, not this object, so it ends when nobody can ask any more.
        weakref.finalize(self, _stop, self._stop, self._slots)

    def get(self, number: int) -> Tensors:
        """The batch of that number; raises what making it, or one before it, has raised."""
        if self._next is None:
            self._next = number
            threading.Thread(
                target=_work,
                args=(self._batches(number), self._ready, self._slots, self._stop),
                name="bilm-windows",
                daemon=True,
            ).start()
        if number < self._next:
            return next(self._batches(number))
        while self._error is None:
            batch = self._ready.get()
            if isinstance(batch, Exception):
                self._error = batch
                break
            self._slots.release()
            self._next += 1
            if self._next > number:
                return batch
        raise self._error


def _work(
    batches: Iterator[Tensors],
    ready: "SimpleQueue[Tensors | Exception]",
    slots: threading.Semaphore,
    stop: threading.Event,
) -> None:
    try:
        while True:
            slots.acquire()
            if stop.is_set():
                return
            ready.put(next(batches))
    except Exception as error:
        ready.put(error)


def _stop(stop: threading.Event, slots: threading.Semaphore) -> None:
    stop.set()
    slots.release()


class WindowIterator(Iterator["LazyBatch"]):
    """
    The lazy batches of an epoch.

    # Parameters

    num_batches : `int`
        How many there are.
    batches : `Callable[[int], Iterator[Tensors]]`
        Makes the batches from a given number on.
    device : `torch.device`, optional
        Where to put them.
    """

    def __init__(
        self,
        num_batches: int,
        batches: Callable[[int], Iterator[Tensors]],
        device: torch.device | None = None,
    ) -> None:
        self._num_batches = num_batches
        self._prefetcher = Prefetcher(batches)
        self._device = device
        self._next = 0

    def __next__(self) -> "LazyBatch":
        if self._next == self._num_batches:
            raise StopIteration
        self._next += 1
        return LazyBatch(partial(_make, self._prefetcher, self._next - 1, self._device))

    def __len__(self) -> int:
        return self._num_batches


def _make(prefetcher: Prefetcher, number: int, device: torch.device | None) -> Tensors:
    tensors = prefetcher.get(number)
    if device is None:
        return tensors
    # On the consumer's side, so that the copy is queued on the stream that the model reads from.
    return {key: tensor.to(device, non_blocking=True) for key, tensor in tensors.items()}


class LazyBatch(dict[str, torch.Tensor]):
    """
    A batch that is made when it is first looked into, so that drawing it and throwing it away, as
    AllenNLP's trainer does with those before the place where it resumes, costs nothing.

    It is a `dict` because AllenNLP asks whether a batch is one, before it counts its rows, moves or
    saves it. All that is read goes through the four methods at the end.

    # Parameters

    make : `Callable[[], Tensors]`
        Makes the tensors.
    """

    get, keys, values, items = Mapping.get, Mapping.keys, Mapping.values, Mapping.items  # type: ignore[assignment]
    __contains__, __eq__ = Mapping.__contains__, Mapping.__eq__

    def __init__(self, make: Callable[[], Tensors]) -> None:
        super().__init__()
        self._make = make

    @cached_property
    def _tensors(self) -> Tensors:
        return self._make()

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._tensors[key]

    def __setitem__(self, key: str, tensor: torch.Tensor) -> None:
        self._tensors[key] = tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
