import ctypes
import platform
from typing import Any

from allennlp.training.callbacks import TrainerCallback

# These numbers are from glibc's malloc.h; mallopt(3) explains them.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


@TrainerCallback.register("keep_freed_memory")
class KeepFreedMemoryCallback(TrainerCallback):
    """
    Calls `keep_freed_memory` before training. Training on a CPU then takes up to a quarter less
    time, but the process never returns memory to the system.

    Registered as a `TrainerCallback` with name "keep_freed_memory".
    """

    def on_start(self, *_: Any, **__: Any) -> None:
        keep_freed_memory()


def keep_freed_memory() -> None:
    """
    Make this process keep the memory that it frees. By default glibc returns large blocks to the
    system at once, and the system clears every page when the next training step allocates them
    again. That takes a tenth of a step of 2x1024_128, and a quarter of a step of 2x4096_512 in
    bf16. With another C library this function does nothing.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, -1)
