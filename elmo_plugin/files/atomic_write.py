"""Files that appear whole or not at all."""

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(OSError):
    """A file could not be written for want of space; the message names it."""


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """
    A temporary file beside `path` that takes its name once everything is in it.

    # Raises

    `DiskFullError`
        If there is no space for it; nothing of it is left then.
    """
    path = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(descriptor)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise DiskFullError(
            f"{path}: could not be written, the disk may be full ({error.strerror})"
        ) from error


class HDF5Bytes(io.FileIO):
    """
    A new file for `h5py.File` to write to. HDF5 crashes over a write that fails. So it is not told:
    from then on nothing is written, and `check`, or leaving the context, raises the error.

    # Parameters

    path : `str` or `os.PathLike`
        Where to write.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        super().__init__(path, "w+")
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the error of a write that failed."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        left = memoryview(data)
        try:
            while left and self._error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            if self._error is None:
                super().truncate(size)
        except OSError as error:
            self._error = error
        return self.tell() if size is None else size

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)
        if kind is None:
            self.check()
