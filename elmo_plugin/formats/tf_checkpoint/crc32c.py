"""CRC-32C, the checksum of LevelDB and TensorFlow. `zlib` has another CRC-32."""

from typing import Any

from elmo_plugin.checks import needed

ALL_BITS = 0xFFFFFFFF


def crc32c(data: Any, before: int = 0) -> int:
    """
    The CRC-32C of bytes or of an array. `before` is that of the bytes before them, as in
    `zlib.crc32`.
    """
    return needed("google_crc32c", "to read TensorFlow's checksums, ").extend(before, data)


def masked(crc: int) -> int:
    """The form in which LevelDB and TensorFlow store a CRC."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & ALL_BITS
