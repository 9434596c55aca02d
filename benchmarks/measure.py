"""
Measurements for all benchmarks. The machine may be busy, so the compared tasks alternate, A B A B,
and medians are reported. The machine's limit is measured along with them, in the same process.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from elmo_plugin.ops.linear import matmul

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
        self._best = {product: float("inf") for product in (torch.mm, matmul)}
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


class MemoryUse(NamedTuple):
    """
    Memory of a process, in MiB: `peak` is the maximum, `without_files` the maximum without mapped
    files, which the system can reclaim, and `imports` the memory after the imports.
    """

    peak: float
    without_files: float
    imports: float


def memory_of(work: Callable[..., object], *arguments: Any) -> MemoryUse:
    """
    Measure the memory of a new process that only runs `work`. (`getrusage` would include this
    process's memory at the time of the fork.)
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_memory_of, work, arguments).result()


def _memory_of(work: Callable[..., object], arguments: Sequence[Any]) -> MemoryUse:
    imports = _memory("VmRSS")
    without_files = _memory("RssAnon")
    done = threading.Event()

    def watch() -> None:
        nonlocal without_files
        while not done.wait(0.01):  # the system records no maximum of it
            without_files = max(without_files, _memory("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work(*arguments)
    finally:
        done.set()
        watcher.join()
    return MemoryUse(_memory("VmHWM"), without_files, imports)


def _memory(kind: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


def largest_costs(work: Callable[[], object], n_costs: int = 3) -> list[Record]:
    """Return the most expensive operators of `work`, and their share of its time."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    operators = sorted(profiler.key_averages(), key=lambda x: -x.self_cpu_time_total)
    total = sum(x.self_cpu_time_total for x in operators)
    return [
        {"operator": x.key, "calls": x.count, "share_of_time": x.self_cpu_time_total / total}
        for x in operators[:n_costs]
    ]


def print_table(title: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Print `records` as a table, with their keys as columns."""
    columns = list(records[0])
    rows = [[cell_text(column, record[column]) for column in columns] for record in records]
    heads = [column.replace("_", " ") for column in columns]
    widths = [max(map(len, cells)) for cells in zip(heads, *rows)]
    print(f"\n{title}\n")
    for cells in (heads, *rows):
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(cells, widths)))
    print(flush=True)


def cell_text(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if column.startswith("share"):
        return f"{value:.0%}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
