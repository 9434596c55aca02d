"""
HDF5 files of numeric arrays. The reader rejects links, and arrays whose data is in other files or
was never written. The writer stores a digest with each array, and the reader checks it if present.
"""

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5l

from elmo_plugin.checks import InputError

VERSION = "v108"
"""
Format version to write: HDF5 1.8 (2008), the first with checksums of shapes, types, addresses,
names, and fixed-length attributes.
"""

MOST_CHUNK = 1 << 24
"""Largest chunk in bytes, if it is larger than its array."""

BLOCK_BYTES = 1 << 24
"""Numbers that are read at a time."""

KINDS = {"f": "floating-point numbers", "i": "whole numbers", "O": "text"}
"""Kinds of arrays."""

DIGEST, DIGEST_SIZE = "blake2b", 16
"""
Attribute of an array that holds the digest of its data, and the digest's size in bytes. HDF5's own
checksum (`fletcher32`) finds less: of zeros it is zero, so that a chunk of a file that was not
transferred whole is valid, and of the format `VERSION` the index of the chunks has none.
"""


class HDF5Bytes(io.FileIO):
    """
    A new file for `h5py.File` to write to. HDF5 crashes if a write fails, so this file reports
    every write as successful. After the first failure it writes nothing more, and `check`, or
    leaving the context, raises the error.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        super().__init__(path, "w+")
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the error of the write that failed, if one did."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        left = memoryview(data)
        try:
            while left and self._error is None:
                left = left[super().write(left) :]
        except BaseException as error:
            self._error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            if self._error is None:
                super().truncate(size)
        except BaseException as error:
            self._error = error
        return self.tell() if size is None else size

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)
        self.check()  # also after another error, which the failed write may have caused


@contextmanager
def open_hdf5(path: str | os.PathLike) -> Iterator[h5py.File]:
    """
    Open a file for reading, without a lock, which some network file systems lack. Raises an
    `InputError` if there is none or it is not HDF5.
    """
    if not Path(path).is_file():
        found = "a folder" if Path(path).is_dir() else "no such file"
        raise InputError(f"{path}: expected an HDF5 file, found {found}")
    try:
        file = h5py.File(os.fspath(path), "r", locking=False)
    except Exception as error:  # damage makes HDF5 and h5py raise errors of many types
        raise InputError(f"{path}: expected a whole HDF5 file, found {error}") from None
    with file:
        yield file


def find_array(file: h5py.File, name: str, kind: str = "f") -> h5py.Dataset | None:
    """
    Find the array `name` without reading its data; `None` if there is no such array. `kind`: one of
    `KINDS`. Raises an `InputError` if it is a link, is of another kind, or has data outside this
    file.
    """
    with _reading(file, name):
        item = file
        for part in name.split("/"):
            if not isinstance(item, h5py.Group) or not item.id.links.exists(part.encode()):
                return None
            if item.id.links.get_info(part.encode()).type != h5l.TYPE_HARD:
                raise _wrong(file, name, "the array itself", "a link to another place")
            item = item[part]
        if not isinstance(item, h5py.Dataset):
            return None
        if item.dtype.kind != kind:
            raise _wrong(file, name, KINDS[kind], item.dtype)
        if item.external or item.is_virtual:
            raise _wrong(file, name, "numbers in the file itself", "numbers in other files")
        if item.size and item.id.get_space_status() != h5d.SPACE_STATUS_ALLOCATED:
            raise _wrong(file, name, "all of its numbers", "a part that was never written")
        # HDF5 reads whole chunks into memory.
        size = math.prod(item.chunks or ()) * item.dtype.itemsize
        if size > max(MOST_CHUNK, item.nbytes):
            raise _wrong(file, name, f"chunks of at most {item.nbytes:,} bytes", f"{size:,} bytes")
        return item


def array_names(file: h5py.File) -> list[str]:
    """The names of all arrays. Raises an `InputError` if the file is damaged."""
    names: list[str] = []

    def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(name)

    with _reading(file, "names of the arrays"):
        file.visititems(add)
    return names


def read_column(file: h5py.File, name: str, kind: str) -> np.ndarray:
    """Read a whole array as `find_array` finds it. Raises an `InputError` if it is damaged too."""
    if (array := find_array(file, name, kind)) is None:
        raise _wrong(file, name, f"an array of {KINDS[kind]}", "none")
    with _reading(file, name):
        return array.asstr()[()] if kind == "O" else array[()]


def read_rows(array: h5py.Dataset) -> Iterator[np.ndarray]:
    """
    Read an array from `find_array`, in blocks of about `BLOCK_BYTES` and of whole chunks. Raises an
    `InputError` if it is damaged, at the latest instead of its last block.
    """
    file, name = array.file, array.name
    row_bytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    n_rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    if array.chunks is not None:  # a chunk is decompressed for each block that has a part of it
        n_rows = math.ceil(n_rows / array.chunks[0]) * array.chunks[0]
    read = blake2b(digest_size=DIGEST_SIZE)
    with _reading(file, name):
        digest = read_text(array, DIGEST)
    for start in range(0, len(array), n_rows):
        with _reading(file, name):
            rows = array[start : start + n_rows]
            if digest is not None:
                read.update(np.ascontiguousarray(rows).data)
                if start + n_rows >= len(array) and read.hexdigest() != digest:
                    raise _wrong(file, name, "the numbers as they were written", "damage")
        yield rows


def write_array(file: h5py.File, name: str, numbers: np.ndarray) -> None:
    """Write an array and its digest to a file that was opened for writing with `VERSION`."""
    *groups, last = name.split("/")
    group = file
    for part in groups:
        group = group.require_group(part)  # one by one, or HDF5 stores the time in them
    group[last] = numbers
    digest = blake2b(np.ascontiguousarray(numbers).data, digest_size=DIGEST_SIZE)
    write_text(group[last], DIGEST, digest.hexdigest())


def read_text(item: h5py.File | h5py.Dataset, name: str) -> str | None:
    """
    Read the attribute `name` of an array or a file; `None` if there is no such attribute. Raises an
    `InputError` if it is not a fixed-length string, as `write_text` writes it.
    """
    with _reading(item.file, f"{item.name}: {name}"):
        if name not in item.attrs:
            return None
        attribute = item.attrs.get_id(name)
        if attribute.dtype.kind != "S" or attribute.shape != ():
            raise TypeError(f"the type {attribute.dtype}")
        return item.attrs[name].decode("utf-8")


def write_text(item: h5py.File | h5py.Dataset, name: str, text: str) -> None:
    """Write a fixed-length attribute, because HDF5 checksums only those."""
    item.attrs[name] = np.bytes_(text.encode("utf-8"))


@contextmanager
def _reading(file: h5py.File, name: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # as in open_hdf5
        raise _wrong(file, name, "readable content", error) from None


def _wrong(file: h5py.File, name: str, expected: str, found: object) -> InputError:
    return InputError(f"{file.filename}: {name.lstrip('/')}: expected {expected}, found {found}")
