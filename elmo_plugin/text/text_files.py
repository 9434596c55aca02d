"""Finds the files of a text, and says whether they have changed."""

import glob
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import file_digest
from elmo_plugin.files.local_path import local_path

COARSEST_STAMP_NS = 2 * 10**9
"""Time stamps of FAT count in two seconds, and those of all other file systems are finer."""


def find_files(path: str | os.PathLike) -> list[Path]:
    """
    The files of a path, in sorted order. `path`: a file, a glob (the files that match, and not
    those in folders that match or cannot be read), a folder (all non-hidden files in and below it),
    or anything else that AllenNLP's `cached_path` resolves, such as a URL.

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
        path = local_path(path, "a file, a folder, a glob or a URL")
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
