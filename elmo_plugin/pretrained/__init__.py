"""
The models that come with the package. Each has a folder of its name with bilm-tf's two files and a
model card, README.md.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
FILES = "options.json", "weights.hdf5"


def pretrained_names() -> list[str]:
    """The names of all models."""
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / FILES[0]).is_file())


def pretrained_files(name: str) -> tuple[str, str]:
    """
    The options file and the weight file of a model.

    # Raises

    `ValueError`
        If there is no model of this name. The message lists the names.
    """
    names = pretrained_names()
    if name not in names:
        known = ", ".join(names) or "none that is installed"
        raise ValueError(f"pretrained: expected one of: {known}; found {name!r}")
    options_file, weight_file = (str(FOLDER / name / file) for file in FILES)
    return options_file, weight_file
