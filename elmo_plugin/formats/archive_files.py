"""
Opens the archive of any AllenNLP model, a `model.tar.gz` or the folder of a training run, without
executing code from it.
"""

import gzip
import os
import posixpath
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.atomic_write import name_full_disk
from elmo_plugin.files.bounds import check_expansion
from elmo_plugin.files.local_path import local_path
from elmo_plugin.files.torch_file import load_weights

CONFIG = "config.json"
WORDS = "vocabulary/words.txt"
WEIGHTS = ("weights.th", "best.th")
"""File names of the weights in an archive and in the folder of a training run."""

MOST_BYTES = {CONFIG: 1 << 24, WORDS: 1 << 27}
"""Largest files that are read as a whole, so that a small archive cannot fill the memory."""

DAMAGE = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error),
    *(EOFError, ValueError, OverflowError, RecursionError),
)

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
def opened_archive(archive_file: str | os.PathLike) -> Iterator[Path]:
    """
    Yield a folder with the config, the words and the weights of an archive. Raises an `InputError`
    if the archive is damaged or has members outside its own folder; the message of this error, and
    of any raised inside the context, begins with the archive's path. Raises a `DiskFullError` if
    the disk has no space to unpack the archive.
    """
    path, folder = local_path(archive_file), ""
    try:
        if os.path.isdir(path):
            yield Path(path)
            return
        with (
            name_full_disk(f"{archive_file}, unpacked in {tempfile.gettempdir()}"),
            tempfile.TemporaryDirectory() as folder,
        ):
            with open(path, "rb") as file:
                if file.read(2) != GZIP_MAGIC:
                    raise InputError(
                        "expected a model.tar.gz, found another kind of file; the options and "
                        "weights of bilm-tf are options_file and weight_file"
                    )
            _unpack(path, Path(folder))
            yield Path(folder)
    except InputError as error:
        problem = str(error).removeprefix(f"{folder}/" if folder else "")  # a temporary folder
        raise InputError(f"{archive_file}: {problem}") from error


def read_weights(folder: Path) -> dict[str, Tensor]:
    """
    The weights in the folder of an archive. Raises an `InputError` if there are none, or if they
    are not plain tensors.
    """
    weights = next((folder / name for name in WEIGHTS if (folder / name).exists()), None)
    if weights is None:
        raise InputError(f"expected weights, {' or '.join(WEIGHTS)}, found none")
    return load_weights(weights)


def _unpack(path: str, folder: Path) -> None:
    """Unpack the needed files of a `model.tar.gz`, and verify the checksum of the whole archive."""
    try:
        with _GzipFile(path) as stream:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    archive.members.clear()  # type: ignore[attr-defined]  # there may be millions
                    name = posixpath.normpath(member.name)
                    if name.startswith("/") or name.split("/")[0] == "..":
                        raise InputError(
                            f"expected members inside the archive's folder, found {shown(name)}"
                        )
                    if not (member.isreg() or member.isdir()):
                        raise InputError(
                            f"expected files and folders, found a link or a device: {shown(name)}"
                        )
                    if member.isreg() and name in (CONFIG, WORDS, *WEIGHTS):
                        if name in WEIGHTS:
                            check_expansion(name, member.size, os.path.getsize(path))
                        _copy(archive, member, name, folder / name)
            while stream.read(1 << 20):  # reads on to the checksum
                pass
    except InputError:  # a `ValueError` too
        raise
    except DAMAGE as error:
        raise InputError(f"expected a whole model.tar.gz, found damage ({error})") from error


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, file: Path) -> None:
    """Copy only the content of a member, and not what else an archive can say about a file."""
    if member.issparse():
        raise InputError(f"{name}: expected an ordinary file, found a sparse one")
    if member.size > (most := MOST_BYTES.get(name, member.size)):
        raise InputError(f"{name}: expected at most {most:,} bytes, found {member.size:,}")
    content = archive.extractfile(member)
    assert content is not None  # it is a regular file
    file.parent.mkdir(exist_ok=True)
    with content, file.open("wb") as copy:
        shutil.copyfileobj(content, copy)
