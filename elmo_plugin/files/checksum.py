"""
Checksums (CRC-32), which detect damage but do not identify content: of 2^32 damaged files one goes
unnoticed. Use them for vectors, at 4 GiB/s on a core: with digests a read from the cache of layers
would take 2.4 times as long.
"""

import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

CHECKSUM_SIZE = 4
_PIECE = 2**20


def checksum(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The CRC-32 of the pieces, one after another."""
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
    return found.to_bytes(CHECKSUM_SIZE, "little")


def append_checksum(path: Path) -> None:
    """Appends its checksum to a file. HDF5 ignores bytes after the end of its own content."""
    with open(path, "r+b") as file:
        file.write(_of_file(file, os.fstat(file.fileno()).st_size))


def ends_in_checksum(path: Path) -> bool:
    """Whether a file is undamaged since `append_checksum`."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size - CHECKSUM_SIZE
        return size >= 0 and _of_file(file, size) == file.read()


def _of_file(file: BinaryIO, size: int) -> bytes:
    """The checksum of the next `size` bytes."""
    steps = range(0, size, _PIECE)
    return checksum(file.read(min(_PIECE, size - start)) for start in steps)
