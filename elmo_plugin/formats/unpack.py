"""
Opens what a model is packed in, a `.tar.gz`, a zip file or a folder, without executing code from
it.
"""

import gzip
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.atomic_write import NO_SPACE, name_full_disk
from elmo_plugin.formats.json_and_text import MOST_BYTES, check_expansion

MOST_FILES = 1000
GZIP_MAGIC = b"\x1f\x8b"
MOST_HEADER = 1 << 24
"""Most bytes of a member's name and other facts, which `tarfile` reads as a whole."""


_Member = tuple[str, int, Callable[[], Any] | None]
"""The name and the size of a member, and what opens its content; `None` for a folder."""


class _GzipFile(gzip.GzipFile):
    """`tarfile` has no limit of its own."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return super().read(size)


@contextmanager
def unpacked(path: Path, needed: re.Pattern[str]) -> Iterator[Path]:
    """
    Yield a folder with the files in a `.tar.gz` or a zip file, which exists inside the context; or
    `path`, if it is a folder or another kind of file. If a folder has no files of a model, but one
    folder, this is it. `needed`: the names of a model's files. No others are unpacked, except small
    JSON files.

    Raises an `InputError` if an archive is damaged, has members outside its own folder, or would
    become much larger. The message of this error, and of any raised inside the context, begins with
    `path`. Raises a `DiskFullError` if the disk has no space to unpack it.
    """
    members = _members(path)
    try:
        if members is None:
            yield _innermost(path, needed)
            return
        with (
            name_full_disk(f"{path}, unpacked in {tempfile.gettempdir()}"),
            tempfile.TemporaryDirectory() as folder,
        ):
            _unpack(path, Path(folder), members, needed)
            yield _innermost(Path(folder), needed)
    except InputError as error:
        is_named = str(error).startswith((f"{path}:", f"{path}/"))
        raise InputError(str(error) if is_named else f"{path}: {error}") from error


def _innermost(folder: Path, needed: re.Pattern[str]) -> Path:
    """The only folder in `folder`, or in this one, and so on, if none of the outer ones has files
    of a model."""
    while folder.is_dir() and not any(needed.fullmatch(file.name) for file in folder.iterdir()):
        visible = (x for x in folder.iterdir() if not x.name.startswith((".", "__MACOSX")))
        folders = [x for x in visible if x.is_dir()]
        if len(folders) != 1:
            break
        (folder,) = folders
    return folder


def _members(path: Path) -> Callable[[Path], Iterator[_Member]] | None:
    """The function that lists the members of an archive; `None` if `path` is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        # A model.tar.gz that was made without compression may end like a zip file.
        is_gzip = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    if is_gzip:
        return _tar_members
    return _zip_members if zipfile.is_zipfile(path) else None


def _tar_members(path: Path) -> Iterator[_Member]:
    """Also verifies the checksum of the whole archive."""
    with _GzipFile(path) as stream:
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # there may be millions
                if not (member.isreg() or member.isdir()):
                    raise InputError(
                        "expected files and folders, found a link or a device: "
                        f"{shown(member.name)}"
                    )
                content = partial(archive.extractfile, member) if member.isreg() else None
                yield member.name, member.size, content
        while stream.read(1 << 20):  # reads on to the checksum
            pass


def _zip_members(path: Path) -> Iterator[_Member]:
    """Reading a member also verifies its checksum."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            content = None if member.is_dir() else partial(archive.open, member)
            # Old PowerShell separates folders by backslashes.
            yield member.filename.replace("\\", "/"), member.file_size, content


def _unpack(
    path: Path, folder: Path, members: Callable[[Path], Iterator[_Member]], needed: re.Pattern[str]
) -> None:
    """Copy the files of an archive that are needed into a folder."""
    n_files = total = 0
    try:
        for member, n_bytes, content in members(path):
            name = posixpath.normpath(member)
            if name.startswith("/") or name.split("/")[0] == "..":
                raise InputError(
                    f"expected members inside the archive's folder, found {shown(name)}"
                )
            last = posixpath.basename(name)
            most = MOST_BYTES.get(posixpath.splitext(last)[1].lower(), n_bytes)
            # ELMoForManyLangs names any JSON file.
            is_needed = needed.fullmatch(last) or (last.endswith(".json") and n_bytes <= most)
            if content is None or not is_needed:
                continue
            if n_bytes > most:
                raise InputError(f"{name}: expected at most {most:,} bytes, found {n_bytes:,}")
            n_files += 1
            total += n_bytes
            check_expansion(name, total, os.path.getsize(path))
            if n_files > MOST_FILES:
                raise InputError(f"expected at most {MOST_FILES} files of a model, found more")
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            # Only the content is copied, and not what else an archive can say about a file.
            with content() as stream, file.open("wb") as copy:
                shutil.copyfileobj(stream, copy)
    except InputError:
        raise
    except Exception as error:  # damage raises errors of many types
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        kind = ".tar.gz" if members is _tar_members else "zip"
        raise InputError(f"expected a whole {kind} file, found damage ({error})") from error
