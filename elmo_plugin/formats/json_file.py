"""The JSON that models of all formats have next to their weights."""

import json
import os
from typing import Any

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.bounds import read_small_file

MOST_BYTES = 1 << 24
"""Largest file, so that none can fill the memory."""


def read_json(path: str | os.PathLike, kind: str) -> dict[str, Any]:
    """
    Read a file; `kind` says in errors what it is, such as "a config". Raises an `InputError` that
    names the file if there is none, or as `parse_json`.
    """
    return parse_json(read_small_file(path, MOST_BYTES, f"{kind} in JSON"), str(path), kind)


def parse_json(text: bytes | str, source: str, kind: str) -> dict[str, Any]:
    """
    Read an object. Raises an `InputError` that begins with `source` if it is another value or not
    JSON, or has a key of a block twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        is_hdf5 = isinstance(text, bytes) and text.startswith(b"\x89HDF")
        found = "an HDF5 file, such as the weights" if is_hdf5 else error
        raise InputError(f"{source}: expected {kind} in JSON, found {found}") from None
    if not isinstance(value, dict):
        raise InputError(f"{source}: expected {kind} in JSON, an object, found {shown(value)}")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    block = dict(pairs)
    if len(block) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r} twice")
    return block


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is not a number of JSON")
