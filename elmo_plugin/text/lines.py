"""
Reads text: one sentence per line, tokens separated by white space, in plain or compressed files.
Blank lines have no meaning. White space is what `str.split` splits at, which includes the no-break
space (U+00A0) and the ideographic space (U+3000). A line ends with a line feed, and not at U+0085
or U+2028, which are white space too.
"""

import io
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from elmo_plugin.checks import InputError
from elmo_plugin.files.decompression import BLOCK_BYTES, DECOMPRESSION_ERRORS, decompressed
from elmo_plugin.text.other_formats import refuse_other_formats, refuse_task_data
from elmo_plugin.text.text_files import find_files

LINE_BYTES = 1 << 25
"""
Longest line in bytes. The limit is far above any sentence and bounds memory, because a small file
may decompress to gigabytes.
"""
BYTE_ORDER_MARK = "\ufeff"


def read_blocks(
    file: Path | BinaryIO, name: str | None = None, is_text: bool = True
) -> Iterator[list[str]]:
    """
    The lines of a file, in blocks of about a megabyte, because processing many lines at once is
    fast. `file`: text in UTF-8, plain or compressed by gzip, xz or zstd; an open file is not
    closed. `name`: the file in errors, by default its path. `is_text`: whether the lines are
    sentences.

    Raises an `InputError` if it is a folder, if it is not UTF-8, if its compressed form is damaged
    or cut short, if a line is longer than `LINE_BYTES`, or if a text is the data of a task, such as
    CoNLL.
    """
    name = name or str(file)
    if isinstance(file, Path) and file.is_dir():
        raise InputError(f"{name}: expected a file, found a folder")
    with open(file, "rb", buffering=0) if isinstance(file, Path) else nullcontext(file) as disk:
        raw: io.BufferedReader = io.BufferedReader(cast(io.RawIOBase, disk), BLOCK_BYTES)
        try:
            yield from _read_blocks(decompressed(raw, name), name, is_text)
        finally:
            raw.detach()  # it would close an open file


def _read_blocks(text: BinaryIO, name: str, is_text: bool) -> Iterator[list[str]]:
    lines_before = 0
    while True:
        try:
            data = text.read(BLOCK_BYTES)
            rest = b"" if data.endswith(b"\n") else text.readline(LINE_BYTES + 1)
        except DECOMPRESSION_ERRORS as error:
            raise InputError(
                f"{name}: expected a whole compressed file, found an error after line "
                f"{lines_before} ({error})"
            ) from error
        if not data:
            break
        if len(rest) > LINE_BYTES:
            line = lines_before + data.count(b"\n") + 1
            raise InputError(
                f"{name}, line {line}: expected one sentence of at most {LINE_BYTES:,} bytes, "
                "found a longer line"
            )
        data += rest
        if lines_before == 0:
            refuse_other_formats(data, name)
        block = decode(data, name, lines_before)
        if lines_before == 0:
            block = block.removeprefix(BYTE_ORDER_MARK)
        lines = block.removesuffix("\n").split("\n")
        if lines_before == 0 and is_text:
            refuse_task_data(lines, name)
        lines_before += len(lines)
        yield lines


def read_sentences(path: str | os.PathLike) -> Iterator[list[str]]:
    """The sentences of a text, each a list of tokens; see `find_files` for `path`."""
    for file in find_files(path):
        for lines in read_blocks(file):
            for line in lines:
                if tokens := line.split():
                    yield tokens


def decode(block: bytes, name: str, lines_before: int) -> str:
    """The text of some lines. Raises an `InputError` that names the line if it is not UTF-8."""
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = lines_before + block.count(b"\n", 0, error.start) + 1
        column = error.start - block.rfind(b"\n", 0, error.start)
        raise InputError(
            f"{name}, line {line}: expected UTF-8, found the byte 0x{block[error.start]:02x} "
            f"at byte {column} of the line ({error.reason})"
        ) from error
