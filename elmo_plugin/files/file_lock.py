"""Locks between processes."""

import errno
import os
from pathlib import Path
from typing import Any

import filelock

try:
    import fcntl
except ModuleNotFoundError:  # on Windows, where all file systems have locks
    fcntl = None  # type: ignore[assignment]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FileLock(filelock.FileLock):
    """
    A lock file as in `filelock`, which waits forever for a file that cannot be created because the
    operating system reports it as missing, as in /proc. On a file system without locks, versions
    before 3.21 also wait forever, and later ones may use files that a killed process leaves. This
    one raises an `OSError` in both cases.
    """

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        if not os.path.lexists(self.lock_file):  # `filelock` does not follow links
            Path(self.lock_file).parent.mkdir(parents=True, exist_ok=True)
            Path(self.lock_file).touch()
        check_locks(self.lock_file)
        return super().acquire(*args, **kwargs)


def check_locks(path: str | os.PathLike) -> None:
    """Raise an `OSError` that says what to do if a file is on a file system without locks."""
    if fcntl is None or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                reason = f"no file locks there ({error.strerror}); choose a folder on a local disk"
                raise OSError(error.errno, reason, str(path)) from None
