"""
Files of `torch.save`, read without running code. They are zip files, and each entry has a checksum
that `torch.load` does not look at.
"""

import errno
import os
import pickle
import struct
import zipfile
import zlib
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from torch.serialization import get_unsafe_globals_in_checkpoint


class DamagedFileError(ConfigurationError):
    """A file of `torch.save` is damaged, or of another format; the message names it."""


def check_torch_file(path: str | os.PathLike) -> None:
    """
    Compares the checksums, at about 0.4 s for each GB.

    # Raises

    `DamagedFileError`
        If one does not match, or if this is not a zip file: PyTorch's format before 1.6 has no
        checksums.
    """
    try:
        with zipfile.ZipFile(path) as file:
            wrong = file.testzip()
            size = sum(entry.file_size for entry in file.infolist())
        get_unsafe_globals_in_checkpoint(path)  # opens it as PyTorch does, which is stricter
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        OverflowError,
        RuntimeError,
        ValueError,
        pickle.UnpicklingError,
    ) as error:
        # Looking for what is cut off is an invalid seek. Other errors are the disk's.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise _damaged(path, error) from error
    if wrong is not None:
        raise _damaged(path, f"the checksum of {wrong} does not match")
    if size > os.path.getsize(path):
        raise _damaged(path, f"{size} bytes of content, more than the file has")


def load_torch_file(path: str | os.PathLike) -> Any:
    """
    Reads tensors and plain values to the CPU.

    # Raises

    `DamagedFileError`
        See `check_torch_file`; also if the file could be read only by running code.
    """
    check_torch_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str | os.PathLike, found: Any) -> DamagedFileError:
    return DamagedFileError(f"{path}: expected a whole file of torch.save, found damage ({found})")
