import ctypes
import multiprocessing
import platform
import resource
from pathlib import Path

import pytest
import torch

from elmo_plugin.callbacks.keep_freed_memory import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_freed_memory

N_BYTES = 2**27
DEFAULTS = {M_MMAP_MAX: 2**16, M_TRIM_THRESHOLD: 2**17}  # of mallopt(3)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _kept_of_what_is_freed() -> int:
    before = _resident()
    block = torch.ones(N_BYTES, dtype=torch.uint8)
    assert _resident() - before > N_BYTES / 2
    del block
    return _resident() - before


def _before_and_after(kept) -> None:
    keep_freed_memory.cache_clear()  # a test before may have called it
    for key, value in DEFAULTS.items():
        ctypes.CDLL(None).mallopt(key, value)
    kept.put(_kept_of_what_is_freed())
    keep_freed_memory()
    kept.put(_kept_of_what_is_freed())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_kept():
    """What mallopt(3) says: a large block is unmapped when it is freed, and now no more."""
    context = multiprocessing.get_context("fork")
    kept = context.SimpleQueue()
    process = context.Process(target=_before_and_after, args=(kept,))
    process.start()
    assert kept.get() < N_BYTES / 2 < kept.get()
    process.join()
