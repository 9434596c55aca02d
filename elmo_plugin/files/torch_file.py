"""
Files of `torch.save`, written with errors that say why, and read without executing code. They are
zip files whose entries have CRC-32 checksums, which `torch.load` does not check.
"""

import errno
import os
import re
import zipfile
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint

from elmo_plugin.checks import InputError, fail

GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
"""The class or function that PyTorch does not load."""


class DamagedFileError(InputError):
    """A file is damaged, not by `torch.save`, or not only of tensors; the message names it."""


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
            size = sum(entry.file_size for entry in file.infolist())
            wrong = file.testzip() if size <= os.path.getsize(path) else None
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


def load_torch_file(path: str | os.PathLike, may_be_old: bool = False) -> Any:
    """
    Load tensors to the CPU, and plain values. Raises a `DamagedFileError` as `check_torch_file`,
    and if loading the file would execute code. With `may_be_old`, a file of a PyTorch before 1.6,
    which has no checksums, is read too.
    """
    if not may_be_old or zipfile.is_zipfile(path):
        check_torch_file(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        # Its message advises to load the file unsafely, so nobody shall read it.
        if (refused := GLOBAL.search(str(error))) is not None:
            raise DamagedFileError(
                f"{path}: expected tensors and plain values, found a pickled {refused[1]}, which "
                "is not loaded because loading it could run code"
            ) from None
        raise _damaged(path, "an unknown form of pickle") from None
    except Exception as error:
        raise _damaged(path, repr(error)) from error


def load_weights(path: str | os.PathLike, may_be_old: bool = False) -> dict[str, Tensor]:
    """
    Load tensors by name. Raises a `DamagedFileError` as `load_torch_file`, and an `InputError` that
    names the first value that is not a plain tensor; see `why_not_plain`.
    """
    state = load_torch_file(path, may_be_old)
    if not isinstance(state, dict):
        found = type(state).__name__
        raise InputError(f"{path}: expected weights by name, found a value of type {found}")
    for name, value in state.items():
        if not isinstance(name, str):
            fail(str(path), "names of weights", name)
        if reason := why_not_plain(value):
            raise InputError(f"{path}: {name}: expected a plain tensor, found {reason}")
    return state


def why_not_plain(value: Any) -> str | None:
    """
    Describe a value that is not a tensor with all of its numbers in memory, or return `None`. For
    many others PyTorch raises internal errors, and a view that repeats numbers may claim any shape.
    """
    if not isinstance(value, Tensor):
        return f"a value of type {type(value).__name__}"
    if type(value) not in (Tensor, torch.nn.Parameter):
        return f"a tensor of type {type(value).__name__}"
    if value.is_nested:
        return "a nested tensor"
    if value.layout != torch.strided:
        return f"a tensor of the layout {str(value.layout).removeprefix('torch.')}"
    if value.is_meta:
        return "a tensor without numbers, on the device meta"
    if value.is_quantized:
        return "a quantized tensor"
    if value.is_conj() or value.is_neg():
        return "a view of other numbers, which are their conjugates or negatives"
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        return f"a view of the shape {tuple(value.shape)} that repeats fewer numbers"
    return None


def _damaged(path: str | os.PathLike, found: Any) -> DamagedFileError:
    return DamagedFileError(f"{path}: expected a whole file of torch.save, found damage ({found})")
