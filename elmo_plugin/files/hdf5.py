"""
HDF5 files of plain numbers. The reader takes nothing else: an HDF5 file may also hold links into
other files, arrays whose bytes lie in other files or were never written, and types and filters of a
program's own. The writer gives each array a digest, which the reader checks where there is one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5l, h5t, h5z

from elmo_plugin.files.digest import new_digest

VERSION = "v108"
"""
The version of the format (HDF5 1.8, 2008) to write. It is the first that has checksums on all but
the numbers: on shapes, types, addresses, names, and attributes of a fixed length. HDF5 checks them.
"""

DIGEST = "blake2b"
"""The attribute of an array that holds the digest of its numbers."""

FLOATS = tuple(getattr(h5t, f"IEEE_F{bits}{end}") for bits in (16, 32, 64) for end in ("LE", "BE"))
LAYOUTS = (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED)
FILTERS = {
    h5z.FILTER_DEFLATE,
    h5z.FILTER_SHUFFLE,
    h5z.FILTER_FLETCHER32,
    h5z.FILTER_SZIP,
    h5z.FILTER_NBIT,
    h5z.FILTER_SCALEOFFSET,
    h5z.FILTER_LZF,
}
"""The filters that h5py brings along. HDF5 would look for a plugin for any other."""


class HDF5Error(ValueError):
    """Something is wrong with an HDF5 file; the message names the file and the array."""


@contextmanager
def open_hdf5(path: str | os.PathLike) -> Iterator[h5py.File]:
    """
    # Raises

    `HDF5Error`
        Where there is no file, or one that is not HDF5.
    """
    if not Path(path).is_file():
        found = "a folder" if Path(path).is_dir() else "no such file"
        raise HDF5Error(f"{path}: expected an HDF5 file, found {found}")
    try:
        file = h5py.File(os.fspath(path), "r")
    except Exception as error:  # HDF5 and h5py raise many kinds of errors over damage
        raise HDF5Error(f"{path}: expected a whole HDF5 file, found {error}") from None
    with file:
        yield file


def find_array(file: h5py.File, name: str) -> h5py.Dataset | None:
    """
    The array `name`, none of its numbers read yet; `None` if there is none.

    # Raises

    `HDF5Error`
        For a link into another file or to another name, and for an array of anything but IEEE
        floating-point numbers of 16, 32 or 64 bits that are all in this file.
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
        type_ = item.id.get_type()
        if not any(type_.equal(plain) for plain in FLOATS):
            raise _wrong(file, name, "numbers of the type float16, float32 or float64", item.dtype)
        properties = item.id.get_create_plist()
        if properties.get_layout() not in LAYOUTS or properties.get_external_count():
            raise _wrong(file, name, "numbers in the file itself", "numbers in other places")
        filters = {properties.get_filter(k)[0] for k in range(properties.get_nfilters())}
        if filters - FILTERS:
            raise _wrong(file, name, "one of HDF5's own filters", f"{min(filters - FILTERS)}")
        if item.id.get_space_status() != h5d.SPACE_STATUS_ALLOCATED:
            raise _wrong(file, name, "numbers", "an array of which a part was never written")
        return item


def read_array(array: h5py.Dataset) -> np.ndarray:
    """
    The numbers of an array that `find_array` gave, in float32.

    # Raises

    `HDF5Error`
        For damage, and for NaN, infinity and what float32 has no finite number for.
    """
    file, name = array.file, array.name
    with _reading(file, name), np.errstate(over="ignore"):
        stored = array[()]
        digest = read_text(array, DIGEST)
        if digest is not None and digest != _digest(stored):
            raise _wrong(file, name, "the numbers that were written", "others: it is damaged")
        numbers = stored.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise _wrong(file, name, "finite float32 numbers", "NaN or infinity")
    return numbers


def write_array(file: h5py.File, name: str, numbers: np.ndarray) -> None:
    """Adds an array with its digest to a file that was opened for writing, in `VERSION`."""
    *groups, last = name.split("/")
    group = file
    for part in groups:
        group = group.require_group(part)  # one by one: HDF5 gives those in between the time of day
    group[last] = numbers
    write_text(group[last], DIGEST, _digest(numbers))


def _digest(numbers: np.ndarray) -> str:
    return new_digest(np.ascontiguousarray(numbers).data, size=16).hexdigest()


def read_text(item: h5py.File | h5py.Dataset, name: str) -> str | None:
    """
    The attribute `name` of an array, or of the file; `None` if there is none.

    # Raises

    `HDF5Error`
        For any other kind of attribute than `write_text` adds.
    """
    with _reading(item.file, f"{item.name}: {name}"):
        if name not in item.attrs:
            return None
        attribute = item.attrs.get_id(name)
        if attribute.dtype.kind != "S" or attribute.shape != ():
            raise TypeError(f"the type {attribute.dtype}")
        return item.attrs[name].decode("utf-8")


def write_text(item: h5py.File | h5py.Dataset, name: str, text: str) -> None:
    """Adds an attribute to an array or the file, of a fixed length: only such have a checksum."""
    item.attrs[name] = np.bytes_(text.encode("utf-8"))


@contextmanager
def _reading(file: h5py.File, name: str) -> Iterator[None]:
    try:
        yield
    except HDF5Error:
        raise
    except Exception as error:  # as in open_hdf5
        raise _wrong(file, name, "what can be read", error) from None


def _wrong(file: h5py.File, name: str, expected: str, found: object) -> HDF5Error:
    return HDF5Error(f"{file.filename}: {name.lstrip('/')}: expected {expected}, found {found}")
