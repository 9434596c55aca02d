"""
Opens what a model is packed in, a `.tar.gz`, a zip file or a folder, without executing code from
it, and reads the files of an AllenNLP archive.
"""

import gzip
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.atomic_write import NO_SPACE, name_full_disk
from elmo_plugin.files.bounds import check_expansion, read_small_file
from elmo_plugin.files.torch_file import load_weights

CONFIG = "config.json"
WORDS = "vocabulary/words.txt"
WEIGHTS = ("weights.th", "best.th")
"""File names of the weights in an archive and in the folder of a training run."""

NEEDED = re.compile(
    r"(?!\.)("
    r"config\.json|(weights|best)\.th|(words|elmo_options)\.txt|"  # AllenNLP
    r".*options\.json|elmo_mixes\.json|.*\.(hdf5|h5)|vocab.*\.txt|"  # bilm-tf
    r"checkpoint|.*\.ckpt.*\.(index|data-\d+-of-\d+)|"  # its checkpoints
    r"(encoder|token_embedder)\.pkl|(char|word)\.dic"  # ELMoForManyLangs
    r")",
    re.IGNORECASE,
)
"""Names of the files that the formats read. No others are unpacked, except small JSON files."""
MOST_FILES = 1000
MOST_BYTES = {".json": 1 << 24, ".txt": 1 << 27, ".dic": 1 << 27}
"""Largest files that are read as a whole, so that a small archive cannot fill the memory."""

GZIP_MAGIC = b"\x1f\x8b"
MOST_HEADER = 1 << 24
"""Most bytes of a member's name and other facts, which `tarfile` reads as a whole."""


class _GzipFile(gzip.GzipFile):
    """`tarfile` has no limit of its own."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return super().read(size)


@contextmanager
def renamed(names: Mapping[Any, Any]) -> Iterator[None]:
    """
    Let an `InputError` name files as the user did: the keys of `names` are the paths of downloads
    and unpacked files, and the values are what they were made from.
    """
    try:
        yield
    except InputError as error:
        message = str(error)
        for path, name in names.items():
            message = message.replace(str(path), str(name))
        raise InputError(message) from error


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """
    Yield a folder with the files in a `.tar.gz` or a zip file, which exists inside the context; or
    `path`, if it is a folder or another kind of file. If a folder has no files of a model, but one
    folder, this is it.

    Raises an `InputError` if an archive is damaged, has members outside its own folder, or would
    become much larger. The message of this error, and of any raised inside the context, begins with
    `path`. Raises a `DiskFullError` if the disk has no space to unpack it.
    """
    unpack = _unpacker(path)
    try:
        if unpack is None:
            yield _innermost(path)
            return
        with (
            name_full_disk(f"{path}, unpacked in {tempfile.gettempdir()}"),
            tempfile.TemporaryDirectory() as folder,
            renamed({folder: path}),
        ):
            _unpack(path, Path(folder), unpack)
            yield _innermost(Path(folder))
    except InputError as error:
        is_named = str(error).startswith((f"{path}:", f"{path}/"))
        raise InputError(str(error) if is_named else f"{path}: {error}") from error


def read_weights(folder: Path) -> dict[str, Tensor]:
    """
    The weights in the folder of an archive. Raises an `InputError` if there are none, or if they
    are not plain tensors.
    """
    weights = next((folder / name for name in WEIGHTS if (folder / name).exists()), None)
    if weights is None:
        raise InputError(f"expected weights, {' or '.join(WEIGHTS)}, found none")
    return load_weights(weights)


def read_text(file: Path, kind: str) -> str:
    """The text of a file. Raises an `InputError` that names it, and its `kind`, a noun phrase."""
    try:
        return read_small_file(file, MOST_BYTES[file.suffix], kind).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: expected UTF-8, found {error}") from error


def _innermost(folder: Path) -> Path:
    """The only folder in `folder`, or in this one, and so on, if none of the outer ones has files
    of a model."""
    while folder.is_dir() and not any(NEEDED.fullmatch(file.name) for file in folder.iterdir()):
        visible = (x for x in folder.iterdir() if not x.name.startswith((".", "__MACOSX")))
        folders = [x for x in visible if x.is_dir()]
        if len(folders) != 1:
            break
        (folder,) = folders
    return folder


class _Members:
    """Decides on each member of an archive, and copies those that are needed into a folder."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.n_files = self.n_bytes = 0

    def place(self, member: str, n_bytes: int) -> Path | None:
        """
        The file for a member; `None` if it is not needed. Raises an `InputError` if the member is
        outside the archive's folder or too large.
        """
        name = posixpath.normpath(member)
        if name.startswith("/") or name.split("/")[0] == "..":
            raise InputError(f"expected members inside the archive's folder, found {shown(name)}")
        last = posixpath.basename(name)
        most = MOST_BYTES.get(posixpath.splitext(last)[1].lower(), n_bytes)
        is_config = last.endswith(".json") and n_bytes <= most  # ELMoForManyLangs names any file
        if not NEEDED.fullmatch(last) and not is_config:
            return None
        if n_bytes > most:
            raise InputError(f"{name}: expected at most {most:,} bytes, found {n_bytes:,}")
        self.n_files += 1
        self.n_bytes += n_bytes
        check_expansion(name, self.n_bytes, os.path.getsize(self.path))
        if self.n_files > MOST_FILES:
            raise InputError(f"expected at most {MOST_FILES} files of a model, found more")
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


def _copy(content: IO[bytes] | None, file: Path) -> None:
    """Copy only the content of a member, and not what else an archive can say about a file."""
    assert content is not None  # it is a regular file
    with content, file.open("wb") as copy:
        shutil.copyfileobj(content, copy)


def _unpacker(path: Path) -> Callable[[Path, _Members], None] | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        # A model.tar.gz that was made without compression may end like a zip file.
        is_gzip = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    if is_gzip:
        return _unpack_tar
    return _unpack_zip if zipfile.is_zipfile(path) else None


def _unpack(path: Path, folder: Path, unpack: Callable[[Path, _Members], None]) -> None:
    try:
        unpack(path, _Members(path, folder))
    except InputError:
        raise
    except Exception as error:  # damage raises errors of many types
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        kind = ".tar.gz" if unpack is _unpack_tar else "zip"
        raise InputError(f"expected a whole {kind} file, found damage ({error})") from error


def _unpack_tar(path: Path, members: _Members) -> None:
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
                file = members.place(member.name, member.size)
                if file is not None and member.isreg():
                    if member.issparse():
                        raise InputError(
                            f"{member.name}: expected an ordinary file, found a sparse one"
                        )
                    _copy(archive.extractfile(member), file)
        while stream.read(1 << 20):  # reads on to the checksum
            pass


def _unpack_zip(path: Path, members: _Members) -> None:
    """Also verifies the checksum of each member."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            file = members.place(member.filename, member.file_size)
            if file is not None and not member.is_dir():
                _copy(archive.open(member), file)
