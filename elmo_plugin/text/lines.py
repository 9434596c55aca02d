"""
Reads text: one sentence per line, tokens separated by white space, in plain or compressed files.
Blank lines have no meaning. White space is what `str.split` splits at, which
includes the no-break space (U+00A0) and the ideographic space (U+3000). A line ends with a line
feed, and not at U+0085 or U+2028, which are white space too.
"""

import glob
import gzip
import io
import lzma
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

try:
    from zstandard import ZstdDecompressor, ZstdError
except ModuleNotFoundError:  # needed only for files compressed by zstd
    ZstdDecompressor = None  # type: ignore[assignment, misc]
    ZstdError = EOFError  # type: ignore[assignment, misc]

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import file_digest
from elmo_plugin.files.local_path import local_path

BLOCK_BYTES = 1 << 20
LINE_BYTES = 1 << 25
"""
Longest line in bytes. The limit is far above any sentence and bounds memory, because a small file
may decompress to gigabytes.
"""
COMPRESSED_BYTES = 1 << 7
"""Bytes to decompress at a time, so few because each may become 32 KiB."""
XZ_MEMORY = 1 << 28
"""Most memory for decompressing xz, which a file may declare to need; `xz -9` needs 65 MiB."""
BYTE_ORDER_MARK = "\ufeff"
COARSEST_STAMP_NS = 2 * 10**9
"""Time stamps of FAT count in two seconds, and those of all other file systems are finer."""

# Compression is recognized by a file's first bytes, because `cached_path` renames downloads. No
# text in UTF-8 begins with any of these.
GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC = b"\x50\x2a\x4d\x18"  # `pzstd` begins with such a frame.

# Named here, because otherwise the error would be about a byte that is not UTF-8.
OTHER_MAGIC = {b"PK\x03\x04": "a zip archive"} | {
    b"BZh%d1AY&SY" % level: "a file compressed by bzip2" for level in range(1, 10)
}

# A tar archive of text is valid UTF-8 itself, so it needs a separate check.
TAR_MAGIC = b"ustar\0", b"ustar  \0"  # POSIX and GNU
TAR_MAGIC_POSITION = 257

# Data of a task is not text: its tags and numbers would become words.
TASK_DATA = re.compile(r'\s*(?:\{\s*"|-DOCSTART-|#begin document)')
"""The beginning of JSON, and of the files of CoNLL-2003 and CoNLL-2012."""
TAG_AT_END = re.compile(r".*\S\s(?:O|[BIELSU]-\S+)\s*")
"""A token's line whose last column is the tag of a span."""
COLUMN_LINES = 1000
"""Number of lines at the start of a file in which columns are looked for."""
FEW_LINES = 2
FEW_TABS = 5
"""So few may be those of a short text."""

DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, ZstdError)


def find_files(path: str | os.PathLike) -> list[Path]:
    """
    The files of a path, in sorted order. `path`: a file, a glob (the files that match, and not
    those in folders that match or cannot be read), a folder (all non-hidden files in and below it),
    or anything else that AllenNLP's `cached_path` resolves, such as a URL or `ARCHIVE!MEMBER`.

    Raises a `FileNotFoundError` if the file does not exist, the folder is empty, or the glob has no
    match; an `OSError` if a subfolder cannot be read; and an `InputError` if a link makes a
    folder contain itself.
    """
    path = os.path.expanduser(os.fspath(path))
    if not os.path.exists(path):
        if glob.has_magic(path) and "://" not in path:
            matches = glob.glob(path, recursive=True)
            # A broken link is included, so that opening it raises an error.
            files = sorted({Path(match) for match in matches if not os.path.isdir(match)})
            if not files:
                raise FileNotFoundError(f"{path}: expected text files, found none for this glob")
            if "**" in path:
                start = Path(path.partition("**")[0])
                for folder in sorted({above for file in files for above in file.parents}):
                    _refuse_loop(folder, start)
            return files
        path = local_path(path, "a file, a folder, a glob or a URL", extract_archive=True)
    resolved = Path(path)
    if not resolved.is_dir():
        return [resolved]
    files = sorted(_walk(resolved))
    if not files:
        raise FileNotFoundError(f"{path}: expected text files, found an empty folder")
    return files


def file_facts(files: Iterable[Path]) -> list[tuple[str | int, ...]]:
    """
    The path, size, mtime, ctime and inode of each file, to detect changes. `rsync --times` and
    archives can give a new file an old mtime, but no program sets the ctime. A file renamed to this
    path may have an old ctime, but it has another inode. A file that has just changed may change
    again without another ctime, so its digest is also given.
    """
    facts: list[tuple[str | int, ...]] = []
    for file in files:
        s = file.stat()
        is_recent = time.time_ns() - s.st_ctime_ns <= COARSEST_STAMP_NS
        content = file_digest(file) if is_recent and file.is_file() else ""  # not that of a pipe
        times = s.st_mtime_ns, s.st_ctime_ns
        facts.append((os.path.realpath(file), s.st_size, *times, s.st_ino, content))
    return facts


def _walk(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> NoReturn:  # os.walk would skip the folder silently
        raise error

    for parent, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            _refuse_loop(Path(parent, name), folder)
        files = (Path(parent, name) for name in names if not name.startswith("."))
        # A broken link is included, so that opening it raises an error.
        yield from (file for file in files if file.is_file() or not file.exists())


def _refuse_loop(folder: Path, start: Path) -> None:
    """Raise an `InputError` if `folder`, below `start`, is also a folder between the two."""
    between = [above for above in folder.parents if above.is_relative_to(start)]
    if folder.resolve() in (above.resolve() for above in between):
        raise InputError(
            f"{folder}: expected a folder of text, found a folder that contains itself, by a link, "
            "so its text would be read again and again"
        )


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
            yield from _read_blocks(_decompressed(raw, name), name, is_text)
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


def _refuse_other_formats(data: bytes, name: str) -> None:
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
    if data.startswith(TAR_MAGIC, TAR_MAGIC_POSITION):
        raise InputError(f"{name}: expected text, found a tar archive; unpack it first")
    for magic, kind in OTHER_MAGIC.items():
        if data.startswith(magic):
            raise InputError(
                f"{name}: expected text, plain or compressed by gzip, xz or zstd, found {kind}"
            )


def _refuse_task_data(lines: list[str], name: str) -> None:
    rows = [x for x in lines[:COLUMN_LINES] if x.strip() and not x.startswith("#")]
    tabs = [n for row in rows if (n := row.strip().count("\t"))]
    n_tagged = sum(TAG_AT_END.fullmatch(row) is not None for row in rows)
    fix = ""
    if TASK_DATA.match("\n".join(lines[:2])):
        found = "JSON or CoNLL data"
    elif len(tabs) > max(FEW_LINES, len(rows) / 2) and sum(tabs) > FEW_TABS:
        found = "tabs in most lines, as in CoNLL or TSV data"
        fix = "; if the tabs separate tokens: tr '\\t' ' '"
    elif n_tagged > max(FEW_LINES, len(rows) / 2):
        found = "a tag at the end of most lines, as in CoNLL data"
    else:
        return
    raise InputError(
        f"{name}: expected text, one sentence per line, found {found}; name the data of a task as "
        f"task://CONFIG#train_data_path, whose reader gives the text{fix}"
    )


def _decompressed(raw: io.BufferedReader, name: str) -> BinaryIO:
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
