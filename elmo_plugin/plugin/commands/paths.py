"""Checks of the paths in the arguments of commands, before the work begins."""

import os
from pathlib import Path

from allennlp.common.file_utils import cached_path

from elmo_plugin.checks import InputError, check_path


def input_path(argument: str, path: str, expected: str) -> str:
    """
    The local path of an input file or folder, which is downloaded if it is a URL. If it does not
    exist, the `FileNotFoundError` names the argument.
    """
    check_path(argument, path)
    try:
        return cached_path(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{argument}: {path}: expected {expected}, found nothing") from None


def check_output_folder(argument: str, file: str) -> None:
    """
    Raises an `InputError` that names the argument if the folder of the output `file` does
    not exist or is not writable. If `file` is a link, it is the folder of the file that it names.
    """
    check_path(argument, file)
    folder = Path(os.path.realpath(file)).parent
    if not folder.is_dir():
        found = "a file" if folder.exists() else "none"
        raise InputError(
            f"{argument}: {file}: expected the existing folder {folder}, found {found}"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{argument}: {file}: expected a writable folder, found {folder}")
