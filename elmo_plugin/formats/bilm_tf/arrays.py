"""The arrays of a biLM under the names of bilm-tf's HDF5, in files of several kinds."""

import os
from collections.abc import Iterable, Iterator
from typing import Protocol

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import array_names, find_array, read_rows


class Arrays(Protocol):
    """
    The named arrays of floating-point numbers in a file. Each method raises an `InputError` that
    begins with `path` if the file is damaged.
    """

    path: str
    n_bytes: int
    """The size of the file, or of all files that it consists of."""

    def names(self) -> Iterable[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; `None` if there is no such array."""

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, in blocks, so that a large one is not in memory twice."""


class HDF5Arrays:
    """The arrays of an open HDF5 file."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.path = file.filename
        self.n_bytes = os.path.getsize(file.filename)

    def names(self) -> Iterable[str]:
        return array_names(self.file)

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = find_array(self.file, name)
        return None if array is None else array.shape

    def rows(self, name: str) -> Iterator[np.ndarray]:
        array = find_array(self.file, name)
        assert array is not None
        return read_rows(array)


def fill(parts: list[Tensor], arrays: Arrays, name: str, order: Tensor | None = None) -> None:
    """
    Copy an array into the views `parts`, which have its shape if they are concatenated. `order`:
    the row of the only view for each row of the array, shape `(V,)`, if they are not in order.
    Raises an `InputError` if a number is NaN, infinite or too large for float32.
    """
    parts, start = list(parts), 0
    for stored in arrays.rows(name):
        with np.errstate(over="ignore"):
            block = torch.from_numpy(stored.astype(np.float32, copy=False))
        if not block.isfinite().all():
            raise InputError(
                f"{arrays.path}: {name}: expected finite float32 numbers, found NaN or infinity"
            )
        if order is not None:
            parts[0].index_copy_(0, order[start : start + len(block)], block)
            start += len(block)
            continue
        while len(block):
            n = min(len(block), len(parts[0]))
            parts[0][:n].copy_(block[:n])
            parts[0], block = parts[0][n:], block[n:]
            if not len(parts[0]):
                del parts[0]
