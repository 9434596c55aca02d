"""
A TensorFlow checkpoint of bilm-tf: its variables, and the folder in which bilm-tf trains.
TensorFlow's names appear only here.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import BLOCK_BYTES
from elmo_plugin.formats.bilm_tf.arrays import NamedArrays, read_arrays
from elmo_plugin.formats.bilm_tf.folder import vocabulary_in
from elmo_plugin.formats.bilm_tf.texts import OPTIONS, read_options
from elmo_plugin.formats.format import Format, FoundBiLM
from elmo_plugin.formats.json_and_text import MOST_BYTES, read_small_file
from elmo_plugin.formats.tf_checkpoint.index_file import (
    Fields,
    crc32c,
    index_entries,
    masked,
    message,
)

INDEX = ".index"
STEP = re.compile(r".*-(\d+)\.index")
NEWEST = re.compile(rb'^model_checkpoint_path: "(?:.*[/\\])?([^"/\\]+)"', re.MULTILINE)
"""The line of the file `checkpoint` with the path at which the newest one was written."""

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


def read_checkpoint(
    path: Path, with_softmax: bool, vocabulary_file: str | None = None
) -> FoundBiLM:
    """
    Read the biLM of a checkpoint and, if asked for, its softmax, whose words are in
    `vocabulary_file` or in the folder. `path`: an index, or a folder, of which the newest
    checkpoint is read. Raises errors as `vocabulary_in`, `read_options` and `read_arrays`, and an
    `InputError` if a file is missing.
    """
    index = _newest(path) if path.is_dir() else path
    options = read_options(index.parent / OPTIONS)
    arrays = CheckpointArrays(index)
    if vocabulary_file is None and (with_softmax or options.words is not None):
        vocabulary_file = vocabulary_in(index.parent)
    return read_arrays(options, arrays, vocabulary_file, with_softmax=with_softmax)


def holds_checkpoint(path: Path) -> bool:
    """Whether `path` is an index, or a folder with one."""
    return any(_indices(path)) if path.is_dir() else path.name.endswith(INDEX)


def index_of(name: str | os.PathLike) -> str | None:
    """
    The index of a checkpoint that is named without it, such as `FOLDER/model.ckpt-1250`; `None` if
    there is none.
    """
    index = os.path.expanduser(f"{os.fspath(name)}{INDEX}")
    return index if os.path.isfile(index) else None


def _indices(folder: Path) -> list[Path]:
    return [file for file in folder.glob(f"*.ckpt*{INDEX}") if file.is_file()]


def _newest(folder: Path) -> Path:
    """The checkpoint that the file `checkpoint` names, or else the one of the last step."""
    indices = _indices(folder)
    if not (folder / "checkpoint").exists():
        return max(indices, key=lambda file: (_step(file), file.name))
    text = read_small_file(folder / "checkpoint", MOST_BYTES[".txt"], "a file")
    line = NEWEST.search(text)
    name = line[1].decode("utf-8", "replace") if line else "none"
    if folder / f"{name}{INDEX}" not in indices:
        there = ", ".join(sorted(file.name.removesuffix(INDEX) for file in indices))
        raise InputError(
            f"{folder / 'checkpoint'}: expected the name of a checkpoint in the folder, found "
            f"{name}; there are: {there}; name one of them, as {folder}/NAME"
        )
    return folder / f"{name}{INDEX}"


def _step(index: Path) -> int:
    step = STEP.fullmatch(index.name)
    return int(step[1]) if step else -1


class CheckpointArrays(NamedArrays):
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
            raise self.wrong("", "numbers in little-endian order", "others")
        shards = {_integer(entry, SHARD) for entry in entries.values()}
        prefix = self._path.removesuffix(".index")
        self._shards = {k: Path(f"{prefix}.data-{k:05d}-of-{n_shards:05d}") for k in shards}
        sizes = {}
        for k, shard in self._shards.items():
            if not shard.is_file():
                raise self.wrong("", f"a file {shard.name} next to it", "none")
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
            raise self.wrong(name, "floating-point numbers", f"TensorFlow's type {number}")
        if SLICES in entry:
            raise self.wrong(name, "an array in one piece", "slices")
        try:
            dimensions = message(_bytes(entry, SHAPE))
            shape = tuple(
                _integer(message(length), LENGTH)
                for length in dimensions.get(DIMENSION, [])
                if isinstance(length, bytes)
            )
        except (IndexError, ValueError) as error:
            raise self.wrong(name, "a shape", error) from None
        n_bytes = math.prod(shape) * np.dtype(TYPES[number]).itemsize
        if n_bytes != (size := _integer(entry, SIZE)):
            raise self.wrong(name, f"{n_bytes:,} bytes, as its shape says", f"{size:,}")
        return shape

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """See `NamedArrays`. A wrong checksum is an error instead of the last block."""
        shape, entry = self.shape(name), self._entries[name]
        assert shape is not None
        left, crc = _integer(entry, SIZE), 0
        row_bytes = max(1, left // max(1, shape[0]))
        block_bytes = max(1, BLOCK_BYTES // row_bytes) * row_bytes
        with self._shards[_integer(entry, SHARD)].open("rb") as file:
            file.seek(_integer(entry, OFFSET))
            while left:
                block = np.fromfile(file, np.uint8, min(left, block_bytes))
                left -= min(left, block_bytes)
                crc = crc32c(block, crc)
                if not left and masked(crc) != _integer(entry, CHECKSUM):
                    raise self.wrong(name, "the numbers as they were written", "damage")
                numbers = block.view(TYPES[_integer(entry, TYPE)])
                yield numbers.reshape(-1, *shape[1:])


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


CHECKPOINT = Format(
    r"checkpoint|.*\.ckpt.*\.(index|data-\d+-of-\d+)", holds_checkpoint, read_checkpoint
)
