"""Runs functions in separate processes, which share no memory or threads."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch


def forked(n_processes: int, **kwargs: Any) -> ProcessPoolExecutor:
    """
    Start processes that are forked from one that has imported everything and computed nothing,
    because the threads of OpenMP and MKL do not survive a fork.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.training"])
    return ProcessPoolExecutor(n_processes, mp_context=context, **kwargs)


class Worker:
    """
    An object in a separate process. Calling the worker with a name calls that method.

    # Parameters

    threads : `int`
        Number of PyTorch threads.
    make : `Callable`
        Function that makes the object in that process from the `arguments`.
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
