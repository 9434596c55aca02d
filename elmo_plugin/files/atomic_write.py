"""
Files that appear whole or not at all: a file is written under a temporary name in the same folder
and then renamed.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(OSError):
    """A file could not be written for lack of space; the message names it."""


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """
    Yields a temporary file next to `path`, which is renamed to `path` when the context is left
    without an error and removed otherwise. If `path` is a symbolic link, the link stays, and the
    file that it names is written, as by `open`; it need not exist.

    # Raises

    `DiskFullError`
        If there is no space for the file.
    """
    path = Path(os.path.realpath(path))
    with name_full_disk(path):
        temporary = path.with_name(f".{path.name}.{token_hex(4)}")
        temporary.touch(exist_ok=False)  # with the mode of any new file, as the umask has it
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())  # or a power failure may leave an empty file
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def name_full_disk(path: str | os.PathLike) -> Iterator[None]:
    """Raises an `OSError` for lack of space again as a `DiskFullError` that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise DiskFullError(
            f"{path}: could not be written, the disk may be full ({error.strerror})"
        ) from error
