"""The paths that commands are given, checked before the work begins."""

import os
from pathlib import Path

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path


def input_path(argument: str, path: str, expected: str) -> str:
    """
    Where an input lies on this machine; a URL is downloaded.

    # Raises

    `FileNotFoundError`
        Naming the argument, where there is nothing.
    """
    try:
        return cached_path(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{argument}: {path}: expected {expected}, found nothing") from None


def check_output_folder(argument: str, file: str) -> None:
    """
    # Raises

    `ConfigurationError`
        Naming the argument, where the folder that `file` is to be written to cannot take it.
    """
    folder = Path(file).absolute().parent
    if not folder.is_dir():
        found = "a file" if folder.exists() else "none"
        raise ConfigurationError(
            f"{argument}: {file}: expected the folder {folder} to be there, found {found}"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"{argument}: {file}: expected a folder that can be written to, found {folder}"
        )
