"""The local paths of files and of URLs."""

import os
from pathlib import Path

from elmo_plugin.checks import InputError, needed
from elmo_plugin.files.atomic_write import DiskFullError, name_full_disk

CACHE = Path(os.getenv("ALLENNLP_CACHE_ROOT", os.path.expanduser("~/.allennlp"))) / "cache"
"""AllenNLP's download cache, which is shared with it."""


def local_path(path: str | os.PathLike, expected: str = "a file or a folder") -> str:
    """
    The local path of a file or folder, where `~` is the home folder. A URL that `cached_path`
    supports is downloaded once.

    Raises a `FileNotFoundError`, which says what was `expected`, if the file does not exist or
    cannot be downloaded; an `InputError` for a URL if the package `cached-path` is not installed;
    and a `DiskFullError` if the disk has no space for a download.
    """
    name = os.path.expanduser(os.fspath(path))
    if os.path.exists(name):
        return name
    missing = f"{path}: expected {expected}, found no such file"
    if "://" not in name:
        raise FileNotFoundError(missing)
    cached_path = needed("cached_path", f"{path}: to read an address, ").cached_path
    try:
        with name_full_disk(f"{path}, downloaded to {CACHE}"):
            return str(cached_path(name, cache_dir=CACHE))
    except (InputError, DiskFullError):
        raise
    except Exception as error:  # each kind of address has errors of its own
        reason = " ".join(str(error).split())  # the hub's has several lines
        raise FileNotFoundError(f"{missing} ({reason})") from error
