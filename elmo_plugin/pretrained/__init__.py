"""
The models that come with the package. Each has a folder with bilm-tf's three files and a model
card, README.md.
"""

from pathlib import Path
from typing import NamedTuple

from elmo_plugin.checks import InputError

FOLDER = Path(__file__).parent
OPTIONS = "options.json"


class PretrainedFiles(NamedTuple):
    """The files of a model. The weights are those of the biLM and of its softmax."""

    options_file: str
    weight_file: str
    vocabulary_file: str


def pretrained_names() -> list[str]:
    """The names of all models."""
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / OPTIONS).is_file())


def pretrained_files(name: str) -> PretrainedFiles:
    """
    The files of a model. Raises an `InputError` that lists the available names if there is no model
    of this name.
    """
    names = pretrained_names()
    if name not in names:
        known = ", ".join(names) or "none that is installed"
        raise InputError(f"pretrained: expected one of: {known}; found {name!r}")
    files = (OPTIONS, "weights.hdf5", "vocabulary.txt")
    return PretrainedFiles(*(str(FOLDER / name / file) for file in files))
