"""The variables of a TensorFlow checkpoint of bilm-tf."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import BLOCK_BYTES
from elmo_plugin.formats.tf_checkpoint.crc32c import crc32c, masked
from elmo_plugin.formats.tf_checkpoint.index_file import Fields, index_entries, message

TYPES = {1: "<f4", 2: "<f8", 19: "<f2"}
"""NumPy's types by TensorFlow's numbers of floating-point types."""

# Fields of the header and of the entry of a variable.
N_SHARDS, IS_BIG_ENDIAN = 1, 2
TYPE, SHAPE, SHARD, OFFSET, SIZE, CHECKSUM, SLICES = range(1, 8)
DIMENSION, LENGTH = 2, 1

SCOPE = "lm/"
RENAMED = (
    ("/rnn/", "/RNN/"),
    ("/multi_rnn_cell/", "/MultiRNNCell/"),
    ("/cell_", "/Cell"),
    ("/lstm_cell/", "/LSTMCell/"),
    ("/projection/kernel", "/W_P_0"),
    ("/kernel", "/W_0"),
    ("/bias", "/B"),
)
"""Parts of the LSTMs' names in a checkpoint and in HDF5, replaced one after another."""


class CheckpointArrays:
    """
    The variables of a checkpoint, which is the files `PREFIX.index` and `PREFIX.data-K-of-N`, under
    the names of bilm-tf's HDF5. Raises an `InputError` if a file is damaged or missing.
    """

    def __init__(self, index: Path) -> None:
        self._path = str(index)
        entries = index_entries(index)
        header = entries.pop("", {})
        n_shards = _integer(header, N_SHARDS)
        if _integer(header, IS_BIG_ENDIAN):
            raise self._wrong("numbers in little-endian order", "others")
        shards = {_integer(entry, SHARD) for entry in entries.values()}
        prefix = self._path.removesuffix(".index")
        self._shards = {k: Path(f"{prefix}.data-{k:05d}-of-{n_shards:05d}") for k in shards}
        sizes = {}
        for k, shard in self._shards.items():
            if not shard.is_file():
                raise self._wrong(f"a file {shard.name} next to it", "none")
            sizes[k] = shard.stat().st_size
        self.n_bytes = sum(sizes.values())
        for name, entry in entries.items():
            k, end = _integer(entry, SHARD), _integer(entry, OFFSET) + _integer(entry, SIZE)
            if end > (size := sizes[k]):
                raise InputError(
                    f"{self._shards[k]}: expected at least {end:,} bytes, which the index "
                    f"names for {name}, found {size:,}"
                )
        self._entries = {
            _renamed(name): entry
            for name, entry in entries.items()
            # What an optimizer stores for a variable is named after it.
            if name.startswith(SCOPE) and name.rpartition("/")[0] not in entries
        }

    def path(self, name: str = "") -> str:
        return self._path

    def names(self) -> Iterable[str]:
        return self._entries

    def shape(self, name: str) -> tuple[int, ...] | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        if (number := _integer(entry, TYPE)) not in TYPES:
            raise self._wrong("floating-point numbers", f"TensorFlow's type {number}", name)
        if SLICES in entry:
            raise self._wrong("an array in one piece", "slices", name)
        try:
            dimensions = message(_bytes(entry, SHAPE))
            shape = tuple(
                _integer(message(length), LENGTH)
                for length in dimensions.get(DIMENSION, [])
                if isinstance(length, bytes)
            )
        except (IndexError, ValueError) as error:
            raise self._wrong("a shape", error, name) from None
        n_bytes = math.prod(shape) * np.dtype(TYPES[number]).itemsize
        if n_bytes != (size := _integer(entry, SIZE)):
            raise self._wrong(f"{n_bytes:,} bytes, as its shape says", f"{size:,}", name)
        return shape

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """See `Arrays`. A wrong checksum is an error instead of the last block."""
        shape, entry = self.shape(name), self._entries[name]
        assert shape is not None
        left, found = _integer(entry, SIZE), 0
        row_bytes = max(1, left // max(1, shape[0]))
        block_bytes = max(1, BLOCK_BYTES // row_bytes) * row_bytes
        with self._shards[_integer(entry, SHARD)].open("rb") as file:
            file.seek(_integer(entry, OFFSET))
            while left:
                block = np.fromfile(file, np.uint8, min(left, block_bytes))
                left -= min(left, block_bytes)
                found = crc32c(block, found)
                if not left and masked(found) != _integer(entry, CHECKSUM):
                    raise self._wrong("the numbers as they were written", "damage", name)
                numbers = block.view(TYPES[_integer(entry, TYPE)])
                yield numbers.reshape(-1, *shape[1:])

    def _wrong(self, expected: str, found: Any, name: str = "") -> InputError:
        place = f"{self._path}: {name}: " if name else f"{self._path}: "
        return InputError(f"{place}expected {expected}, found {found}")


def _renamed(name: str) -> str:
    name = name.removeprefix(SCOPE)
    if name.startswith("RNN"):
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
    return name


def _integer(fields: Fields, number: int) -> int:
    """A field, which is 0 if it is absent."""
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""
