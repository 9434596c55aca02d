"""
The installed models. Each is a folder with bilm-tf's three files and a model card, README.md: those
here come with the package, and others with distributions of their own, which name them by an entry
point of the group `elmo_plugin.models`, the name of the model and the package that is its folder.
"""

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from elmo_plugin.checks import InputError

FOLDER = Path(__file__).parent
GROUP = "elmo_plugin.models"
OPTIONS = "options.json"
DISTRIBUTIONS = ("medium",)
"""Our models that are distributions of their own, elmo_plugin_NAME in models/NAME of a clone."""


class PretrainedFiles(NamedTuple):
    """The files of a model. The weights are those of the biLM and of its softmax."""

    options_file: str
    weight_file: str
    vocabulary_file: str


def pretrained_names() -> list[str]:
    """The names of all models."""
    return sorted({*_names_in_package(), *entry_points(group=GROUP).names})


def pretrained_files(name: str) -> PretrainedFiles:
    """
    The files of a model. Raises an `InputError` that lists the available names, or says how to
    install it, if there is no model of this name, and one if there are two, or its distribution
    lacks its package.
    """
    folders = [FOLDER / name] if name in _names_in_package() else []
    folders += [_package_folder(point) for point in entry_points(group=GROUP, name=name)]
    if not folders and name in DISTRIBUTIONS:
        raise InputError(
            f"pretrained: {name!r} is not installed: pip install its wheel, elmo_plugin_{name}, or "
            f"./models/{name} in a clone of elmo_plugin"
        )
    if not folders:
        known = ", ".join(pretrained_names())
        raise InputError(f"pretrained: expected one of: {known}; found {name!r}")
    if len(folders) > 1:
        found = " and ".join(map(str, folders))
        raise InputError(f"pretrained: expected one model of the name {name!r}, found {found}")
    files = (OPTIONS, "weights.hdf5", "vocabulary.txt")
    return PretrainedFiles(*(str(folders[0] / file) for file in files))


def _names_in_package() -> set[str]:
    return {folder.name for folder in FOLDER.iterdir() if (folder / OPTIONS).is_file()}


def _package_folder(point: EntryPoint) -> Path:
    """The folder of an entry point's package, which is not imported."""
    spec = find_spec(point.value)
    if spec is None or not spec.submodule_search_locations:
        of = f" of {point.dist.name}" if point.dist else ""
        raise InputError(
            f"pretrained: expected the package {point.value}, which has the model {point.name!r} "
            f"by the entry point{of}, found none"
        )
    return Path(spec.submodule_search_locations[0])
