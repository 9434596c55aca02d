"""
Decompresses files of gzip, xz and zstd as they are read.

Compression is recognized by a file's first bytes, because `cached_path` renames downloads. No text
in UTF-8 begins with any of these.
"""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, cast

try:
    from zstandard import ZstdDecompressor, ZstdError
except ModuleNotFoundError:  # needed only for files compressed by zstd
    ZstdDecompressor = None  # type: ignore[assignment, misc]
    ZstdError = EOFError  # type: ignore[assignment, misc]

from elmo_plugin.checks import InputError

BLOCK_BYTES = 1 << 20
COMPRESSED_BYTES = 1 << 7
"""Bytes to decompress at a time, so few because each may become 32 KiB."""
XZ_MEMORY = 1 << 28
"""Most memory for decompressing xz, which a file may declare to need; `xz -9` needs 65 MiB."""
GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC = b"\x50\x2a\x4d\x18"  # `pzstd` begins with such a frame.

DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ZstdError)


def decompressed(raw: io.BufferedReader, name: str) -> BinaryIO:
    """
    The content of an open file, which is `raw` itself if it is not compressed. Reading damage
    raises one of `DECOMPRESSION_ERRORS`. `name`: the file in the `InputError` if the package
    zstandard is needed and not installed.
    """
    start = raw.peek(len(XZ_MAGIC))
    if start.startswith(GZIP_MAGIC):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if start.startswith(XZ_MAGIC):
        stream = partial(lzma.LZMADecompressor, memlimit=XZ_MEMORY)
        return io.BufferedReader(_Frames(raw, stream, padding=b"\0"), BLOCK_BYTES)
    if start.startswith((ZSTD_MAGIC, ZSTD_SKIPPABLE_MAGIC)):
        if ZstdDecompressor is None:
            raise InputError(f"{name}: expected the package zstandard, found none; pip install it")
        frame = ZstdDecompressor().decompressobj
        return io.BufferedReader(_Frames(raw, frame), BLOCK_BYTES)
    return raw


class _Frames(io.RawIOBase):
    """
    Decompresses Zstandard frames or xz streams, one after the other, with any `padding` between
    them. It raises an `EOFError` if the file is truncated, which `zstandard`'s own reader does not,
    and an error if something else follows a stream, which `lzma.LZMAFile` ignores.
    """

    def __init__(self, raw: BinaryIO, frame: Callable[[], Any], padding: bytes = b"") -> None:
        self._raw = raw
        self._new_frame = frame
        self._padding = padding
        self._frame = frame()
        self._compressed = b""
        self._text = io.BytesIO()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not (count := self._text.readinto(buffer)):
            # Text is at most 32,768 times as long: a block of 4 bytes can decompress to 128 KiB.
            compressed = self._compressed or self._raw.read(COMPRESSED_BYTES)
            self._compressed = b""
            if not compressed:
                if not self._frame.eof:
                    raise EOFError("the file ended before the end of a frame")
                return 0
            if self._frame.eof:
                compressed = compressed.lstrip(self._padding)
                if not compressed:
                    continue
                self._frame = self._new_frame()
            self._text = io.BytesIO(self._frame.decompress(compressed))
            self._compressed = self._frame.unused_data
        return count
