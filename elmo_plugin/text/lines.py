"""
Reads text: one sentence per line, tokens separated by whitespace, in plain or compressed files.
Blank lines have no meaning. Whitespace is what `str.split` splits at, which includes the no-break
space (U+00A0) and the ideographic space (U+3000). A line ends with a line feed, and not at U+0085
or U+2028, which are whitespace too. Files that are not text, but could be read as text, are
refused.
"""

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from elmo_plugin.checks import InputError
from elmo_plugin.files.decompression import BLOCK_BYTES, DECOMPRESSION_ERRORS, decompressed
from elmo_plugin.text.text_files import find_files

LINE_BYTES = 1 << 25
"""
Longest line in bytes. The limit is far above any sentence and bounds memory, because a small file
may decompress to gigabytes.
"""
BYTE_ORDER_MARK = "\ufeff"

# Named here and looked for first, because otherwise the error would be about the encoding.
OTHER_MAGIC = {b"PK\x03\x04": "a zip archive"} | {
    b"BZh%d1AY&SY" % level: "a file compressed by bzip2" for level in range(1, 10)
}

# A tar archive begins with the name of its first file.
TAR_MAGIC = b"ustar\0", b"ustar  \0"  # POSIX and GNU
TAR_MAGIC_POSITION = 257

# Data of a task is not text: its tags and numbers would become words.
TASK_DATA = re.compile(
    r'\s*(?:\[?\s*\{\s*"(?:[^"\\]|\\.)*"\s*:'  # the first key of JSON
    r"|\((?:\d|[A-Z]+)?\s*\((?:\d|[A-Z]+)\s"  # trees of constituents or of sentiment
    r"|-DOCSTART-|#begin document)"  # CoNLL-2003 and CoNLL-2012
)
TAG_AT_END = re.compile(r".*\S\s(?:O|[BIELSU]-[A-Z][A-Z\d_-]*)\s*")
"""
A token's line whose last column is the tag of a span. With labels in lower case, which words such
as U-boat have too, most tags of a file are `O`.
"""
TABLE_NAME = re.compile(r".*\.[ct]sv(?:\.(?:gz|xz|zst))?", re.IGNORECASE | re.DOTALL)
"""Tables are known by their names, because a line with commas may be a sentence."""
COLUMN_LINES = 1000
"""Number of lines at the start of a file in which columns are looked for."""
FEW_LINES = 2
FEW_TABS = 5
"""So few may be those of a short text, unless all of its lines have the same number of tabs."""


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
            _refuse_other_formats(data, name)
        block = decode(data, name, lines_before)
        if lines_before == 0:
            block = block.removeprefix(BYTE_ORDER_MARK)
        lines = block.removesuffix("\n").split("\n")
        if lines_before == 0 and is_text:
            _refuse_task_data(lines, name)
            refuse_table(name)
        lines_before += len(lines)
        yield lines


def read_lines(
    file: Path | BinaryIO, name: str | None = None, is_text: bool = True
) -> Iterator[str]:
    """The lines of a file, one by one; see `read_blocks`."""
    return chain.from_iterable(read_blocks(file, name, is_text))


def read_sentences(path: str | os.PathLike) -> Iterator[list[str]]:
    """The sentences of a text, each a list of tokens; see `find_files` for `path`."""
    for file in find_files(path):
        yield from filter(None, map(str.split, read_lines(file)))


def numbered_lines(
    lines: Iterable[str], name: str, with_blank: bool = False, first: int = 0, step: int = 1
) -> Iterator[tuple[int, str]]:
    """
    Every `step`-th of the lines of the text `name` from line `first` on, with its number, counted
    from 0. Blank lines are left out `with_blank`. Otherwise one raises an `InputError` that names
    it.
    """
    for number, line in islice(enumerate(lines), first, None, step):
        if text := line.rstrip():  # raw text has its places from the start of the line
            yield number, text
        elif not with_blank:
            raise InputError(f"{name}, line {number + 1}: expected a sentence, found an empty line")


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


def _refuse_other_formats(data: bytes, name: str) -> None:
    """
    Raise an `InputError` if a file begins like one in another encoding, or an archive. `data`: its
    first lines; `name`: the file in the error.
    """
    if data.startswith(TAR_MAGIC, TAR_MAGIC_POSITION):
        raise InputError(f"{name}: expected text, found a tar archive; unpack it first")
    for magic, kind in OTHER_MAGIC.items():
        if data.startswith(magic):
            raise InputError(
                f"{name}: expected text, plain or compressed by gzip, xz or zstd, found {kind}"
            )
    # UTF-16 without a byte order mark can be valid UTF-8. Its line feeds have a NUL beside them.
    end = data.find(b"\n")
    if b"\0" in data[:4] or (end > 0 and b"\0" in data[end - 1 : end + 2]):
        raise InputError(
            f"{name}: expected text in UTF-8, found NUL bytes as in UTF-16; "
            "iconv -f UTF-16LE -t UTF-8 converts what Windows calls Unicode"
        )
    body = data.rstrip(b"\r\n")
    if body.count(b"\r") - body.count(b"\r\n") > data.count(b"\n"):
        raise InputError(
            f"{name}: expected lines that end in LF, found CR as on old Macintoshes; "
            "tr '\\r' '\\n' converts them"
        )


def _refuse_task_data(lines: list[str], name: str) -> None:
    """Raise an `InputError` if the first lines of a file are the data of a task."""
    rows = [x for x in lines[:COLUMN_LINES] if x.strip() and not x.startswith("#")]
    tabs = [n for row in rows if (n := row.strip().count("\t"))]
    has_columns = len(rows) == len(tabs) > 1 and len(set(tabs)) == 1
    n_tagged = sum(TAG_AT_END.fullmatch(row) is not None for row in rows)
    fix = ""
    if TASK_DATA.match("\n".join(lines[:3])):
        found = "JSON, trees or CoNLL data"
    elif has_columns or (len(tabs) > max(FEW_LINES, len(rows) / 2) and sum(tabs) > FEW_TABS):
        found = "tabs in most lines, as in CoNLL or TSV data"
        fix = "; cut -f N takes a column; if the tabs separate tokens: tr '\\t' ' '"
    elif n_tagged > max(FEW_LINES, len(rows) / 2):
        found = "a tag at the end of most lines, as in CoNLL data"
    else:
        return
    raise InputError(
        f"{name}: expected text, one sentence per line, found {found}; name the data of a task as "
        f"task://CONFIG#train_data_path, whose reader gives the text{fix}"
    )


def refuse_table(name: str) -> None:
    """
    Raise an `InputError` if a file is a table by its name: its header, quotes and other columns are
    not text.
    """
    if TABLE_NAME.fullmatch(name):
        raise InputError(
            f"{name}: expected text, one sentence per line, found the name of a table; write the "
            "column with the sentences to a text file, or pass it to the Python function"
        )
