"""Locks between processes."""

import os
from pathlib import Path
from typing import Any

import filelock


class FileLock(filelock.FileLock):
    """
    A lock file as in `filelock`, which waits forever for a file that cannot be created because the
    operating system reports it as missing, as in /proc. This one raises the `OSError`.
    """

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        create_lock_file(self.lock_file)
        return super().acquire(*args, **kwargs)


def create_lock_file(path: str) -> None:
    """Create a lock file and its folder, as `filelock` does, if there is none."""
    if not os.path.lexists(path):  # `filelock` does not follow links
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
