"""
The files of JSON and of text that models have next to their weights, which are read as a whole, and
bounds on the memory and disk space that a file may take, checked before they are used.
"""

import json
import os
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError, fail

CONFIG = "config.json"
"""The file with which the folders of AllenNLP and of ELMoForManyLangs describe a model."""

MOST_BYTES = {".json": 1 << 24, ".txt": 1 << 27, ".dic": 1 << 27}
"""Largest files that are read as a whole, so that a small archive cannot fill the memory."""

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
        kind = kinds.get(type(error), error.strerror)
        raise InputError(f"{path}: expected {expected}, found {kind}") from None
    if len(content) > most:
        raise InputError(f"{path}: expected {expected} of at most {most:,} bytes, found more")
    return content


def read_json(path: str | os.PathLike, kind: str) -> dict[str, Any]:
    """
    Read a file; `kind` says in errors what it is, such as "a config". Raises an `InputError` that
    names the file if there is none, or as `parse_json`.
    """
    content = read_small_file(path, MOST_BYTES[".json"], f"{kind} in JSON")
    return parse_json(content, str(path), kind)


def parse_json(text: bytes | str, source: str, kind: str) -> dict[str, Any]:
    """
    Read an object. Raises an `InputError` that begins with `source` if it is another value or not
    JSON, or has a key of a block twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        is_hdf5 = isinstance(text, bytes) and text.startswith(b"\x89HDF")
        content = "an HDF5 file, such as the weights" if is_hdf5 else error
        raise InputError(f"{source}: expected {kind} in JSON, found {content}") from None
    if not isinstance(value, dict):
        fail(source, f"{kind} in JSON, an object", value)
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    block = dict(pairs)
    if len(block) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r} twice")
    return block


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is not a number of JSON")


def read_text(file: Path, kind: str) -> str:
    """The text of a file. Raises an `InputError` that names it, and its `kind`, a noun phrase."""
    try:
        return read_small_file(file, MOST_BYTES[file.suffix], kind).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: expected UTF-8, found {error}") from error
