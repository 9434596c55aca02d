"""
Files that are written completely or not at all: a file is written under a temporary name in the
same folder and then renamed.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from secrets import token_hex

from elmo_plugin.checks import InputError, fail
from elmo_plugin.files.interrupts import end_if_interrupted

try:
    import fcntl
except ModuleNotFoundError:  # on Windows
    fcntl = None  # type: ignore[assignment]

TOKEN, ENDING = "[0-9a-f]" * 8, ".tmp"
"""The end of a temporary file's name: a pattern of the part that differs, and the rest."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(OSError):
    """A file could not be written because the disk is full; the message names the file."""


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """
    Yield a temporary file next to `path`. It is renamed to `path` if the context ends without an
    error, and removed otherwise; if the process is killed, the next write to `path` removes it. If
    `path` is a symbolic link, the link stays and its target is written, as by `open`; the target
    need not exist. Raises a `DiskFullError` if the disk is full.
    """
    path = Path(os.path.realpath(path))
    with name_full_disk(path), ExitStack() as stack:
        _remove_leftovers(path)
        temporary = _locked(path, stack)
        if path.is_file():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        yield temporary
        with temporary.open("r+b") as written:  # Windows flushes what is open for writing
            os.fsync(written.fileno())  # otherwise a power failure may leave an empty file
        end_if_interrupted()
        os.replace(temporary, path)


def _locked(path: Path, stack: ExitStack) -> Path:
    """Create a temporary file, which no other process removes before the `stack` is closed."""
    while True:
        temporary = path.with_name(f".{path.name}.{token_hex(4)}{ENDING}")
        stack.callback(temporary.unlink, missing_ok=True)
        try:
            file = stack.enter_context(temporary.open("xb"))  # permissions follow the umask
        except OSError as error:  # of a name that the user does not know
            raise OSError(error.errno, error.strerror, str(path)) from None
        if fcntl is None:
            file.close()  # Windows does not rename an open file
            return temporary
        with suppress(OSError):  # without locks, no process removes files of another one
            fcntl.flock(file, fcntl.LOCK_EX)
        if temporary.exists():  # another process may have removed it before it was locked
            return temporary


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of killed processes, which hold no locks any more."""
    for file in path.parent.glob(f".{escape(path.name)}.{TOKEN}{ENDING}") if fcntl else ():
        with suppress(OSError), file.open("r+b") as leftover:
            fcntl.flock(leftover, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()


@contextmanager
def name_full_disk(path: str | os.PathLike) -> Iterator[None]:
    """Turn an `OSError` about a full disk into a `DiskFullError` that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise DiskFullError(
            f"{path}: could not be written, the disk may be full ({error.strerror})"
        ) from error


@contextmanager
def writable_folder(name: str, folder: str | os.PathLike) -> Iterator[None]:
    """
    Create the folder that the argument `name` names, unless it exists. Raises an `InputError` if it
    cannot be created, or if a file cannot be written there inside the context, and a
    `DiskFullError` if the disk is full.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield
    except DiskFullError:
        raise
    except OSError as error:
        raise InputError(
            f"{name}: {folder}: expected a folder to write to, found {error}"
        ) from None


def check_is_new(out: str | os.PathLike) -> None:
    """Raise an `InputError` if a file or a folder of this name exists."""
    if Path(out).exists():
        raise InputError(
            f"{out}: expected to write a new file, found one; remove it to write it again"
        )


def check_can_write(name: str, file: str) -> None:
    """
    Raise an `InputError` if the output `file`, which the argument `name` names, cannot be written,
    before hours of work. For a link, its target is checked.
    """
    if file in ("", "-") or (os.path.exists(file) and not os.path.isfile(file)):
        fail(name, "a file to write", file)
    folder = Path(os.path.realpath(file)).parent
    try:  # permissions alone do not tell, as in /proc
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"{name}: {file}: expected to write into the folder {folder}, found: {error.strerror}"
        ) from None
