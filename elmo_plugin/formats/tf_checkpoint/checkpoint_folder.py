"""The folder of a checkpoint, as bilm-tf trains in it."""

import os
import re
from pathlib import Path

from elmo_plugin.checks import InputError
from elmo_plugin.files.bounds import read_small_file
from elmo_plugin.formats.bilm_tf.model_files import vocabulary_in
from elmo_plugin.formats.bilm_tf.options_file import read_options
from elmo_plugin.formats.bilm_tf.weight_file import read_arrays
from elmo_plugin.formats.found import FoundBiLM
from elmo_plugin.formats.json_file import MOST_BYTES
from elmo_plugin.formats.tf_checkpoint.checkpoint_arrays import CheckpointArrays

INDEX = ".index"
STEP = re.compile(r".*-(\d+)\.index")
NEWEST = re.compile(rb'^model_checkpoint_path: "(?:.*[/\\])?([^"/\\]+)"', re.MULTILINE)
"""The line of the file `checkpoint` with the path at which the newest one was written."""


def read_checkpoint(
    path: Path, with_softmax: bool, vocabulary_file: str | None = None
) -> FoundBiLM:
    """
    Read the biLM of a checkpoint and, if asked for, its softmax, whose words are in
    `vocabulary_file` or in the folder. `path`: an index, or a folder, of which the newest
    checkpoint is read. Raises errors as `vocabulary_in`, `read_options` and `read_arrays`, and an
    `InputError` if a file is missing.
    """
    index = _newest(path) if path.is_dir() else path
    options = read_options(index.parent / "options.json")
    arrays = CheckpointArrays(index)
    if vocabulary_file is None and (with_softmax or options.words is not None):
        vocabulary_file = vocabulary_in(index.parent)
    return read_arrays(options, arrays, vocabulary_file, with_softmax)


def holds_checkpoint(path: Path) -> bool:
    """Whether `path` is an index, or a folder with one."""
    return any(_indices(path)) if path.is_dir() else path.name.endswith(INDEX)


def index_of(name: str | os.PathLike) -> str | os.PathLike:
    """The index of a checkpoint that is named without it, such as `FOLDER/model.ckpt-1250`."""
    index = f"{os.fspath(name)}{INDEX}"
    return index if os.path.isfile(os.path.expanduser(index)) else name


def _indices(folder: Path) -> list[Path]:
    return [file for file in folder.glob(f"*.ckpt*{INDEX}") if file.is_file()]


def _newest(folder: Path) -> Path:
    """The checkpoint that the file `checkpoint` names, or else the one of the last step."""
    indices = _indices(folder)
    if not (folder / "checkpoint").exists():
        return max(indices, key=lambda file: (_step(file), file.name))
    text = read_small_file(folder / "checkpoint", MOST_BYTES, "a file")
    line = NEWEST.search(text)
    name = line[1].decode("utf-8", "replace") if line else "none"
    if folder / f"{name}{INDEX}" not in indices:
        there = ", ".join(sorted(file.name.removesuffix(INDEX) for file in indices))
        raise InputError(
            f"{folder / 'checkpoint'}: expected the name of a checkpoint in the folder, found "
            f"{name}; there are: {there}; name one of them, as {folder}/NAME"
        )
    return folder / f"{name}{INDEX}"


def _step(index: Path) -> int:
    step = STEP.fullmatch(index.name)
    return int(step[1]) if step else -1
