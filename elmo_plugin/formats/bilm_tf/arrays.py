"""The arrays of a biLM under the names of bilm-tf's HDF5, in files of several kinds."""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

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
    """The arrays of an open HDF5 file."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.n_bytes = os.path.getsize(file.filename)

    def path(self, name: str = "") -> str:
        return self.file.filename

    def names(self) -> Iterable[str]:
        return array_names(self.file)

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = find_array(self.file, name)
        return None if array is None else array.shape

    def rows(self, name: str) -> Iterator[np.ndarray]:
        array = find_array(self.file, name)
        assert array is not None
        return read_rows(array)


class ArraysOfTwoFiles:
    """The arrays of a weight file without the softmax, and of a file with only the softmax."""

    def __init__(self, weights: Arrays, softmax: Arrays) -> None:
        self.weights = weights
        self.softmax = softmax
        self.n_bytes = weights.n_bytes + softmax.n_bytes

    def _file(self, name: str) -> Arrays:
        return self.softmax if name.startswith(SOFTMAX) else self.weights

    def path(self, name: str = "") -> str:
        return self._file(name).path(name)

    def names(self) -> Iterable[str]:
        return [*self.weights.names(), *self.softmax.names()]

    def shape(self, name: str) -> tuple[int, ...] | None:
        return self._file(name).shape(name)

    def rows(self, name: str) -> Iterator[np.ndarray]:
        return self._file(name).rows(name)


class SoftmaxRows(NamedTuple):
    """
    The words of a softmax, first `<S>`, `</S>` and `<UNK>`, and the number of the word of each row
    in the file, shape `(V,)`, int64.
    """

    words: list[str]
    order: Tensor


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
                f"{arrays.path(name)}: {name}: expected finite float32 numbers, found NaN or "
                "infinity"
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
