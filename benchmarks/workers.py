"""Work in processes of its own, so that no other's figures share its memory and threads."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch


def forked(n_processes: int, **kwargs: Any) -> ProcessPoolExecutor:
    """
    Forked from a process that has imported all and computed nothing: what OpenMP and MKL keep of
    their threads does not outlive a fork.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.training"])
    return ProcessPoolExecutor(n_processes, mp_context=context, **kwargs)


class Worker:
    """
    An object in a process of its own; calling this calls a method of it, by name.

    # Parameters

    threads : `int`
        Of PyTorch.
    make : `Callable`
        Makes the object there, of the `arguments`.
    """

    def __init__(self, threads: int, make: Callable[..., Any], *arguments: Any) -> None:
        self._process = forked(1)
        self._process.submit(_make, threads, make, arguments).result()

    def __call__(self, method: str, *arguments: Any) -> Any:
        return self._process.submit(_call, method, arguments).result()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.shutdown()


_object: Any = None


def _make(threads: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    global _object
    torch.set_num_threads(threads)
    _object = make(*arguments)


def _call(method: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(_object, method)(*arguments)
