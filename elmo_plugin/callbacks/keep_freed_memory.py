"""Memory that a step of training frees is there for the next one."""

import ctypes
import platform
from functools import cache

# Of glibc's malloc.h; what they do is in mallopt(3).
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


@cache
def keep_freed_memory() -> None:
    """
    Makes this process keep what it frees. glibc gives large blocks back to the system at once,
    which clears them page by page when the next step takes them again: a tenth of a step of
    2x1024_128, and a quarter of one of 2x4096_512 in bf16. Other C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, -1)
