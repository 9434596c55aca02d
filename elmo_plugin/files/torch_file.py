"""
Files of `torch.save`, written with errors that say why, and read without executing code. They are
zip files whose entries have CRC-32 checksums, which `torch.load` does not check.
"""

import errno
import os
import zipfile
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from elmo_plugin.checks import InputError


class DamagedFileError(InputError):
    """A file is damaged or was not written by `torch.save`; the message names it."""


def save_torch_file(state: Any, path: str | os.PathLike) -> None:
    """
    Write `state` to the disk. Raises an `OSError`, for example if the disk is full; PyTorch may
    raise a `RuntimeError` after it, while it closes the file.
    """
    try:
        with open(path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    except RuntimeError as error:
        cause = error.__context__
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        raise cause or error from None


def check_torch_file(path: str | os.PathLike) -> None:
    """
    Check all checksums of a file, at about 0.4 s per GB. Raises a `DamagedFileError` if one does
    not match, or if the file is not a zip file (PyTorch before 1.6).
    """
    try:
        with zipfile.ZipFile(path) as file:
            wrong = file.testzip()
            size = sum(entry.file_size for entry in file.infolist())
        get_unsafe_globals_in_checkpoint(path)  # PyTorch's reader is stricter
    except Exception as error:  # damage raises errors of many types
        # Seeking beyond the end of a truncated file is EINVAL. Other errors come from the disk.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise _damaged(path, error) from error
    if wrong is not None:
        raise _damaged(path, f"the checksum of {wrong} does not match")
    if size > os.path.getsize(path):
        raise _damaged(path, f"{size} bytes of content in a smaller file")


def load_torch_file(path: str | os.PathLike) -> Any:
    """
    Load tensors to the CPU, and plain values. Raises a `DamagedFileError` as `check_torch_file`,
    and if loading the file would execute code.
    """
    check_torch_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: str | os.PathLike, found: Any) -> DamagedFileError:
    return DamagedFileError(f"{path}: expected a whole file of torch.save, found damage ({found})")
