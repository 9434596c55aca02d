import os
from pathlib import Path

from elmo_plugin.checks import InputError

CACHE = Path(os.getenv("ALLENNLP_CACHE_ROOT", Path.home() / ".allennlp")) / "cache"
"""AllenNLP's own cache, which it shares: what one has downloaded the other finds."""


def local_path(path: str | os.PathLike, extract_archive: bool = False) -> str:
    """
    The path of a file or a folder, or of the copy of an address, which is downloaded once.

    # Parameters

    path : `str | os.PathLike`
        A path, or an address that `cached_path` knows.
    extract_archive : `bool`
        Unpack an archive, and return its folder.

    # Raises

    `FileNotFoundError`
        If there is no such file.
    `InputError`
        If it is an address and the package `cached-path` is not installed.
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
