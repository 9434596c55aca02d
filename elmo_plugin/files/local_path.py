"""The local paths of URLs, and the names that errors have for them."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from elmo_plugin.checks import InputError, named, needed

CACHE = Path(os.getenv("ALLENNLP_CACHE_ROOT", os.path.expanduser("~/.allennlp"))) / "cache"
"""AllenNLP's download cache, which is shared with it."""


def local_path(path: str | os.PathLike, expected: str = "a file or a folder") -> str:
    """
    The local path of a file or folder, where `~` is the home folder. A URL that `cached_path`
    supports is downloaded once.

    Raises a `FileNotFoundError`, which says what was `expected`, if the file does not exist or
    cannot be downloaded, and an `InputError` for a URL if the package `cached-path` is not
    installed.
    """
    name = os.path.expanduser(os.fspath(path))
    if os.path.exists(name):
        return name
    missing = f"{path}: expected {expected}, found no such file"
    if "://" not in name:
        raise FileNotFoundError(missing)
    cached_path = needed("cached_path", f"{path}: to read an address, ").cached_path
    try:
        return str(cached_path(name, cache_dir=CACHE))
    except InputError:
        raise
    except (OSError, ValueError) as error:  # no such address, unknown host, or no answer
        reason = " ".join(str(error).split())  # the hub's has several lines
        raise FileNotFoundError(f"{missing} ({reason})") from error


def named_as_given(
    names: Iterable[str | os.PathLike], paths: Iterable[str]
) -> AbstractContextManager[None]:
    """
    Let errors about the local `paths` of files begin with the `names` that the user gave, where
    these are others, such as URLs.
    """
    others = [str(name) for name, path in zip(names, paths) if str(name) != path]
    return named(" and ".join(others)) if others else nullcontext()
