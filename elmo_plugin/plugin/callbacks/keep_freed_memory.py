import ctypes
import platform
from typing import Any

from allennlp.training.callbacks import TrainerCallback

# These numbers are from glibc's malloc.h; mallopt(3) explains them.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


@TrainerCallback.register("keep_freed_memory")
class KeepFreedMemoryCallback(TrainerCallback):
    """
    Calls `keep_freed_memory` before training, which takes up to a quarter less time on a CPU; the
    process never gets smaller.

    Registered as a `TrainerCallback` with name "keep_freed_memory".

    # Parameters

    serialization_dir : `str`
        AllenNLP passes it; it gets no entry in a configuration file.
    """

    def on_start(self, *_: Any, **__: Any) -> None:
        keep_freed_memory()


def keep_freed_memory() -> None:
    """
    Makes this process keep the memory that it frees. By default glibc returns large blocks to the
    system at once, and the system clears them page by page when the next step of training takes
    them again, which costs a tenth of a step of 2x1024_128 and a quarter of one of 2x4096_512 in
    bf16. With another C library this does nothing.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, -1)
