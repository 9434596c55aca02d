"""Tensors that are made once, and shared by threads with CUDA streams of their own."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor


def shared(*tensors: Any) -> "Shared | None":
    """
    Tensors as the current stream leaves them, for threads that read them in other streams, or
    `None` on a device without CUDA streams. `tensors` are on one device, in tuples, lists and the
    like, which may have other objects too.
    """
    some = [x for x in _tensors_of(tensors) if _stream_of(x)]
    return Shared(some) if some else None


class Shared:
    """Tensors that streams read one after another: a lock orders only what the CPU does."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.record()

    def record(self) -> None:
        """Let other streams wait for what the current one has done until now."""
        self.stream = _stream_of(self.tensors[0])
        self.event = self.stream.record_event()
        self._keep()

    def wait(self) -> None:
        """Let the current stream wait for the one that the tensors were left by."""
        stream = _stream_of(self.tensors[0])
        if stream != self.stream:
            stream.wait_event(self.event)
            self._keep()

    def _keep(self) -> None:
        """Once the tensors are freed, keep their memory until the current stream has read it."""
        for x in self.tensors:
            x.record_stream(_stream_of(x))


def _tensors_of(values: Iterable[Any]) -> Iterator[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, Iterable):
            yield from _tensors_of(x)


def _stream_of(x: Tensor) -> Any:
    """The current stream of a tensor's device, if it is a CUDA device. Tests replace it."""
    return torch.cuda.current_stream(x.device) if x.is_cuda else None
