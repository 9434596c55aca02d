"""The arrays of a biLM under the names of bilm-tf's HDF5, in files of several kinds."""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Protocol

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import array_names, find_array, read_rows

SOFTMAX = "softmax/"
"""The beginning of the names of the softmax's arrays."""


class Arrays(Protocol):
    """
    The named arrays of floating-point numbers of a biLM. Each method raises an `InputError` that
    begins with the file's path if a file is damaged.
    """

    n_bytes: int
    """The size of all files."""

    def path(self, name: str = "") -> str:
        """The file with the array `name`."""

    def names(self) -> Iterable[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; `None` if there is no such array."""

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, in blocks, so that a large one is not in memory twice."""


class HDF5Arrays:
    """The arrays of an open HDF5 file, and of a second one with the softmax if there is one."""

    def __init__(self, file: h5py.File, softmax: h5py.File | None = None) -> None:
        self._weights = file
        self._softmax = file if softmax is None else softmax
        paths = {self._weights.filename, self._softmax.filename}
        self.n_bytes = sum(map(os.path.getsize, paths))
        # Once for each array, because it decompresses all chunks to check them.
        self._find = cache(lambda name: find_array(self._file(name), name))

    def _file(self, name: str) -> h5py.File:
        return self._softmax if name.startswith(SOFTMAX) else self._weights

    def path(self, name: str = "") -> str:
        return self._file(name).filename

    def names(self) -> Iterable[str]:
        return [*array_names(self._weights), *array_names(self._softmax)]

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = self._find(name)
        return None if array is None else array.shape

    def rows(self, name: str) -> Iterator[np.ndarray]:
        array = self._find(name)
        assert array is not None
        return read_rows(array)


def fill(parts: list[Tensor], arrays: Arrays, name: str, order: Tensor | None = None) -> None:
    """
    Copy an array into the views `parts`, which have its shape if they are concatenated. `order`:
    the row of the only view for each row of the array, shape `(V,)`, if they are not in order.
    Raises an `InputError` if a number is NaN, infinite or too large for float32, or is not one of
    the whole numbers of the views' type.
    """
    parts, start = list(parts), 0
    dtype = parts[0].dtype
    for stored in arrays.rows(name):
        with np.errstate(over="ignore"):
            block = torch.from_numpy(stored.astype(np.float32, copy=False))
        if not block.isfinite().all():
            raise InputError(
                f"{arrays.path(name)}: {name}: expected finite float32 numbers, found NaN or "
                "infinity"
            )
        numbers = block.to(dtype)
        # float16 rounds large numbers to others that are whole too.
        is_short = stored.dtype.itemsize < block.itemsize
        if not dtype.is_floating_point and (is_short or not torch.equal(numbers.float(), block)):
            raise InputError(
                f"{arrays.path(name)}: {name}: expected whole numbers of the type {dtype} in "
                f"float32, found others in {stored.dtype}"
            )
        if order is not None:
            parts[0][order[start : start + len(block)]] = numbers
            start += len(block)
            continue
        while len(numbers):
            n = min(len(numbers), len(parts[0]))
            parts[0][:n].copy_(numbers[:n])
            parts[0], numbers = parts[0][n:], numbers[n:]
            if not len(parts[0]):
                del parts[0]
