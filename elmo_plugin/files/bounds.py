"""Bounds on the memory and disk space that a file may take, checked before they are used."""

import os

from elmo_plugin.checks import InputError

MOST_TIMES = 16
FREE_BYTES = 1 << 30
"""Weights of trained models become at most a few times as large when decompressed. A file may
contain `MOST_TIMES` its size and `FREE_BYTES` in addition, which no file needs to earn."""


def check_expansion(name: str, n_bytes: int, stored: int) -> None:
    """
    Raise an `InputError`, which begins with `name`, if a file of `stored` bytes would become much
    larger, `n_bytes`, when it is read or unpacked.
    """
    most = MOST_TIMES * stored + FREE_BYTES
    if n_bytes > most:
        raise InputError(
            f"{name}: expected at most {most:,} bytes, because {stored:,} are stored, found "
            f"{n_bytes:,}"
        )


def read_small_file(path: str | os.PathLike, most: int, expected: str) -> bytes:
    """
    Read a whole file, of at most `most` bytes. It may be a pipe. Raises an `InputError` that names
    the file and what was `expected` if there is no such file, or it cannot be read or is larger.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        kinds = {FileNotFoundError: "no such file", IsADirectoryError: "a folder"}
        found = kinds.get(type(error), error.strerror)
        raise InputError(f"{path}: expected {expected}, found {found}") from None
    if len(content) > most:
        raise InputError(f"{path}: expected {expected} of at most {most:,} bytes, found more")
    return content
