"""
The models that come with the package: a folder each, named as the model, with bilm-tf's two files
and a README.md that says what it was trained on and what it is good for.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
FILES = "options.json", "weights.hdf5"


def pretrained_names() -> list[str]:
    """The names of the models that there are."""
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / FILES[0]).is_file())


def pretrained_files(name: str) -> tuple[str, str]:
    """
    The options file and the weight file of a model.

    # Raises

    `ValueError`
        Where there is none of this name, with the names of those that there are.
    """
    names = pretrained_names()
    if name not in names:
        known = ", ".join(names) or "none that is installed"
        raise ValueError(f"pretrained: expected one of: {known}; found {name!r}")
    options_file, weight_file = (str(FOLDER / name / file) for file in FILES)
    return options_file, weight_file
