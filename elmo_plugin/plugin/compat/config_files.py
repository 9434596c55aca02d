"""
A folder in place of a config aborts the process within Jsonnet, and a device such as /dev/zero
fills the memory. Importing this lets Python read configs and the files that they import, of at most
16 MiB each, so that both are errors that name the file. If one is missing in a folder
`training_configs`, the error names the command that copies the package's. An error in a config is
the first line of Jsonnet's message, without Jsonnet's own stack, and `--overrides` that are no
object is one too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from _jsonnet import evaluate_snippet
from allennlp.common import params

from elmo_plugin.checks import InputError, named, shown
from elmo_plugin.formats.small_files import read_small_file

MOST_BYTES = 1 << 24
COPIED = "python -m elmo_plugin elmo-configs training_configs copies the package's configs"

cached_path = params.cached_path
parse_overrides = params.parse_overrides


@contextmanager
def _saying_what_copies(path: str | os.PathLike) -> Iterator[None]:
    try:
        yield
    except (InputError, FileNotFoundError) as error:
        if "training_configs" not in Path(path).parts or os.path.exists(path):
            raise
        raise type(error)(f"{error}; {COPIED}") from None


def _path_of_config(url_or_filename: str | os.PathLike, *args: Any, **kwargs: Any) -> str:
    with _saying_what_copies(url_or_filename):
        return cached_path(url_or_filename, *args, **kwargs)


def _imported(folder: str, name: str) -> tuple[str, bytes]:
    path = os.path.join(folder, name)
    with _saying_what_copies(path):
        return path, read_small_file(path, MOST_BYTES, "a file")


def _evaluate_snippet(source: str, text: str, **kwargs: Any) -> str:
    try:
        return evaluate_snippet(source, text, import_callback=_imported, **kwargs)
    except RuntimeError as error:
        raise InputError(str(error).partition("\n")[0]) from None


def _evaluate_file(file: str | os.PathLike, **kwargs: Any) -> str:
    content = read_small_file(file, MOST_BYTES, "a config in Jsonnet or JSON")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: expected a config in UTF-8, found {error}") from None
    return _evaluate_snippet(str(file), text, **kwargs)


@wraps(params.parse_overrides)
def _parse_overrides(serialized_overrides: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    with named("--overrides"):
        overrides = parse_overrides(serialized_overrides, *args, **kwargs)
        if not isinstance(overrides, dict):
            raise InputError(f"expected an object of JSON, found {shown(serialized_overrides)}")
    return overrides


params.cached_path = _path_of_config
params.evaluate_file = _evaluate_file
params.evaluate_snippet = _evaluate_snippet
params.parse_overrides = _parse_overrides
