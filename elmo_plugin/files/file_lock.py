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
        if not os.path.lexists(self.lock_file):  # `filelock` does not follow links
            Path(self.lock_file).parent.mkdir(parents=True, exist_ok=True)
            Path(self.lock_file).touch()
        return super().acquire(*args, **kwargs)
