"""
Measurements for all benchmarks. The machine may be busy, so the compared tasks alternate, A B A B,
and medians are reported. The machine's limit is measured along with them, in the same process.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from elmo_plugin.ops.linear import matmul
from experiments.markdown import table

Record = dict[str, Any]
"""One row of a table, by column."""

CPU = torch.device("cpu")


def progress(what: str) -> None:
    """Print what is being measured. The tables follow at the end of a part."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of a single run of `work`, on a GPU until its last kernel has ended."""
    began = time.perf_counter()
    work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def in_turns(
    *works: Callable[[], object], n_rounds: int = 3, least_seconds: float = 2.0
) -> list[float]:
    """
    Return the median seconds of each of `works`, which alternate for `n_rounds` rounds. Short tasks
    get more rounds, so that a busy moment does not matter.
    """
    rounds: list[list[float]] = []
    began = time.perf_counter()
    while len(rounds) < n_rounds or time.perf_counter() - began < least_seconds:
        rounds.append([seconds(work) for work in works])
    return [median(column) for column in zip(*rounds)]


class MatrixProductPeak:
    """
    The highest rate of operations in a product of two square matrices, with PyTorch or oneDNN. Each
    call measures both again. Alternating with other work, it gives the limit of that work under the
    same conditions.

    # Parameters

    dtype : `torch.dtype`, optional (default = `torch.float32`)
        Type of the matrices.
    quick : `bool`, optional (default = `False`)
        Whether to use smaller matrices.
    device : `torch.device`, optional (default = `CPU`)
        Device that multiplies.
    """

    def __init__(
        self, dtype: torch.dtype = torch.float32, quick: bool = False, device: torch.device = CPU
    ) -> None:
        self._size = 512 if quick else 2048 if device == CPU else 8192
        self._factors = torch.randn(2, self._size, self._size, device=device).to(dtype)
        products = (torch._int_mm,) if dtype == torch.int8 else (torch.mm, matmul)
        self._best = {product: float("inf") for product in products}
        for _ in range(5):
            self()

    def __call__(self) -> None:
        for product, best in self._best.items():
            self._best[product] = min(best, seconds(partial(product, *self._factors)))

    @property
    def gflops(self) -> float:
        return self._gflops(min(self._best.values()))

    @property
    def gflops_of_torch(self) -> float:
        """Return the rate of PyTorch's product, which the peers use."""
        return self._gflops(self._best[torch.mm])

    def _gflops(self, least_seconds: float) -> float:
        return 2 * self._size**3 / least_seconds / 1e9

    def seconds_at_least(self, n_operations: float) -> float:
        """Return the seconds of `n_operations` at this rate."""
        return n_operations / self.gflops / 1e9


class Worker:
    """
    An object in a separate process. Calling the worker with a name calls that method. The process
    is forked from one that has imported everything and computed nothing, because the threads of
    OpenMP and MKL do not survive a fork.

    # Parameters

    threads : `int`
        Number of PyTorch threads.
    make : `Callable`
        Function that makes the object in that process from the `arguments`.
    """

    def __init__(self, threads: int, make: Callable[..., Any], *arguments: Any) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.training"])
        self._process = ProcessPoolExecutor(1, mp_context=context)
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


def largest_costs(
    work: Callable[[], object], n_costs: int = 3, device: torch.device = CPU
) -> list[Record]:
    """
    Return the most expensive operators of `work`, or kernels on a GPU, and their share of its time.
    """
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as found:
        work()
        if on_gpu:
            torch.cuda.synchronize()
    key = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    times = {x.key: (getattr(x, key), x.count) for x in found.key_averages()}
    total = sum(time for time, _ in times.values()) or 1
    ordered = sorted(times.items(), key=lambda x: -x[1][0])
    return [
        {"operator": name[:90], "calls": count, "share_of_time": time / total}
        for name, (time, count) in ordered[:n_costs]
    ]


def speed(
    n_tokens: int, own: float, theirs: float, peak: MatrixProductPeak, n_operations: float
) -> Record:
    """Return the speeds in tokens per second, from the seconds of both, and the limit."""
    least = peak.seconds_at_least(n_operations)
    return {
        "ours": n_tokens / own,
        "allennlp": n_tokens / theirs,
        "ratio": theirs / own,
        "gflops_peak": peak.gflops,
        "limit": n_tokens / least,
        "share_of_limit": least / own,
    }


def markdown(title: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with the keys that some record fills as columns."""
    columns = [key for key in records[0] if any(record[key] is not None for record in records)]
    heads = [column.replace("_", " ") for column in columns]
    rows = [[cell_text(column, record[column]) for column in columns] for record in records]
    return f"## {title}\n\n{table(heads, rows)}\n"


def print_table(title: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Print `records`, if there are any, as a table in Markdown."""
    if records:
        print(f"\n{markdown(title, records)}", flush=True)


def cell_text(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "/")
    if column.startswith("share"):
        return f"{value:.0%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
