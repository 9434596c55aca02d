"""
The index of a TensorFlow checkpoint: a table of strings in LevelDB's format, whose values are
messages of Protocol Buffers.

    table    blocks, each a content, a byte for its compression (0: none) and a checksum; then 48
             bytes: the places of two blocks, padding and a magic number. The second of the two is a
             block whose values are the places of the blocks of content.
    block    entries, each the lengths of three parts: of the previous key, of the rest of the key,
             and of the value; then 32-bit places of entries, and their number.
    place    offset and size, both variable-length integers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError, needed
from elmo_plugin.formats.json_and_text import read_small_file

MOST_BYTES = 1 << 22
MOST_KEY_BYTES = 1 << 8
"""Largest index and longest name, so that a small file cannot fill the memory. The index of a biLM
has a few thousand bytes."""
FOOTER_BYTES = 48
MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
TRAILER_BYTES = 5
ALL_BITS = 0xFFFFFFFF

Fields = dict[int, list[int | bytes]]
"""The values of a message, by field number."""


def index_entries(path: Path) -> dict[str, Fields]:
    """
    Read an index: the fields of its entries by name, of which the empty name is the header. Raises
    an `InputError` if the file is damaged.
    """
    data = read_small_file(path, MOST_BYTES, "the index of a TensorFlow checkpoint")
    try:
        return {key.decode("utf-8"): message(value) for key, value in _items(data)}
    except (IndexError, ValueError) as error:
        raise InputError(
            f"{path}: expected a whole index of a TensorFlow checkpoint, found {error}"
        ) from None


def message(data: bytes) -> Fields:
    """Read a message. Raises an `IndexError` or a `ValueError` if it is none."""
    fields: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _integer(data, at)
        value: int | bytes
        if (kind := tag & 7) == 0:
            value, at = _integer(data, at)
        elif kind == 2:
            size, at = _integer(data, at)
            value, at = _piece(data, at, size), at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(_piece(data, at, size), "little"), at + size
        else:
            raise ValueError(f"a field of type {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _items(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if data[-len(MAGIC) :] != MAGIC:
        raise ValueError("no magic number at its end")
    footer = data[-FOOTER_BYTES:]
    *other_blocks, at = _place(footer, 0)
    *index_block, at = _place(footer, at)
    list(_block(data, *other_blocks))  # it is empty
    end = 0
    for _, place in _block(data, *index_block):
        offset, size, _ = _place(place, 0)
        if offset < end:  # a small file could name a block many times
            raise ValueError("blocks that overlap")
        end = offset + size
        yield from _block(data, offset, size)


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = _piece(data, offset, size + TRAILER_BYTES)
    content, compression, checksum = block[:size], block[size], block[size + 1 :]
    if masked(crc32c(block[: size + 1])).to_bytes(4, "little") != checksum:
        raise ValueError(f"a wrong checksum at byte {offset}")
    if compression:
        raise ValueError(f"a compressed block at byte {offset}")
    n_places = int.from_bytes(_piece(content, size - 4, 4), "little")
    end = size - 4 * (n_places + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _integer(content, at)
        rest, at = _integer(content, at)
        length, at = _integer(content, at)
        key = _piece(key, 0, shared) + _piece(content, at, rest)
        if len(key) > MOST_KEY_BYTES:
            raise ValueError(f"a name of {len(key)} bytes")
        yield key, _piece(content, at + rest, length)
        at += rest + length


def _place(data: bytes, at: int) -> tuple[int, int, int]:
    """The offset and the size of a block, and where they end."""
    offset, at = _integer(data, at)
    size, at = _integer(data, at)
    return offset, size, at


def _piece(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size] if at >= 0 else b""
    if len(piece) < size:
        raise ValueError("an end within an entry")
    return piece


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """An integer of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("an integer of more than 64 bits")


def crc32c(data: Any, before: int = 0) -> int:
    """
    The CRC-32C of bytes or of an array, the checksum of LevelDB and TensorFlow. `zlib` has another
    CRC-32. `before` is that of the bytes before them, as in `zlib.crc32`.
    """
    return needed("google_crc32c", "to read TensorFlow's checksums, ").extend(before, data)


def masked(crc: int) -> int:
    """The form in which LevelDB and TensorFlow store a CRC."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & ALL_BITS
