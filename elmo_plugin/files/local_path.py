import os
from pathlib import Path

from elmo_plugin.checks import InputError

CACHE = Path(os.getenv("ALLENNLP_CACHE_ROOT", os.path.expanduser("~/.allennlp"))) / "cache"
"""AllenNLP's download cache, which is shared with it."""


def local_path(path: str | os.PathLike, extract_archive: bool = False) -> str:
    """
    The local path of a file or folder. A URL that `cached_path` supports is downloaded once. With
    `extract_archive`, an archive is unpacked and the path is that of its folder.

    Raises a `FileNotFoundError` if the file does not exist, and an `InputError` for a URL if the
    package `cached-path` is not installed.
    """
    name = os.path.expanduser(os.fspath(path))
    if os.path.exists(name) and not extract_archive:
        return name
    if "://" not in name and "!" not in name and not os.path.exists(name):
        raise FileNotFoundError(f"file {path} not found")
    try:
        from cached_path import cached_path
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: expected a path, found an address, which needs: pip install cached-path"
        ) from None
    return str(cached_path(name, cache_dir=CACHE, extract_archive=extract_archive))
