"""The biLMs of a grid, as folders with bilm-tf's two files."""

from pathlib import Path
from typing import NamedTuple

from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.pretrained import pretrained_files
from experiments.grid.cells import Grid
from experiments.random_bilm import write_random_bilm


class Bilm(NamedTuple):
    """
    folder : `Path`
    digest : `str`
        Digest of its options and weights.
    """

    folder: Path
    digest: str


def find_bilms(grid: Grid, work: Path) -> dict[str, Bilm]:
    """The biLMs of a grid by name. Those with initial weights are created in `work` if missing."""
    found = {}
    for name, bilm in grid.bilms.items():
        if "pretrained" in bilm:
            folder = Path(pretrained_files(bilm["pretrained"]).options_file).parent
        else:
            folder = work / "bilms" / f"{name}-{bilm['like']}-{bilm['seed']}"
            if not (folder / "options.json").exists():
                write_random_bilm(folder, bilm["like"], bilm["seed"])
        files = [file_digest(folder / file) for file in ("options.json", "weights.hdf5")]
        found[name] = Bilm(folder, digest(" ".join(files).encode()))
    return found
