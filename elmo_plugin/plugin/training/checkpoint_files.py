"""Names, writes, reads and removes the files of exact checkpoints."""

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from torch.serialization import get_unsafe_globals_in_checkpoint

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.torch_file import DamagedFileError, load_torch_file, save_torch_file

logger = logging.getLogger(__name__)

KINDS = ("rank_state", "training_state", "model_state")
"""The files of a checkpoint, in the order in which they are written."""

_NAME = re.compile(
    rf"(?:{'|'.join(KINDS)})_e(?P<epochs>\d+)_b(?P<batches>\d+)"
    r"(?:_w\d+of(?P<world_size>\d+))?\.th"
)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}(\.tmp)?")
"""The names of files and of a vocabulary while they are written, which a killed process leaves."""


class Point(NamedTuple):
    """A point in training: the completed epochs, and the completed batches of the next epoch."""

    epochs: int
    batches: int


class CheckpointFiles:
    """The checkpoints in a folder, as seen by the process `rank` of a distributed run."""

    def __init__(self, folder: str, rank: int, world_size: int) -> None:
        self._folder = folder
        self._rank = rank
        self._world_size = world_size

    def path(self, kind: str, point: Point) -> str:
        """The file of a checkpoint; `kind` is one of `KINDS`."""
        process = f"_w{self._rank}of{self._world_size}" if kind == "rank_state" else ""
        return os.path.join(self._folder, f"{kind}_e{point.epochs}_b{point.batches}{process}.th")

    def best(self) -> str:
        return os.path.join(self._folder, "best.th")

    def complete(self) -> list[Point]:
        """Checkpoints that have all files this process needs, the newest first."""
        points = {_point(match) for _, match in self._listing()}
        whole = (p for p in points if all(os.path.exists(self.path(k, p)) for k in KINDS))
        return sorted(whole, reverse=True)

    def check_world_size(self) -> None:
        """Raise an `InputError` if another number of processes saved a checkpoint here."""
        for path, match in self._listing():
            if match["world_size"] not in (None, str(self._world_size)):
                raise InputError(
                    f"{path} was saved by a training of {match['world_size']} process(es): "
                    f"expected as many to resume it, but found {self._world_size}."
                )

    def write(self, state: Any, path: str) -> None:
        """
        Write tensors and plain values to `path`, atomically. Raises an `OSError` if the file cannot
        be written, and an `InputError` if loading an object of the state would execute code.
        """
        with atomic_write(path) as temporary:
            save_torch_file(_plain(state), temporary)
            if unsafe := get_unsafe_globals_in_checkpoint(temporary):
                raise InputError(
                    f"{path}: expected tensors and plain Python values in the states of the model, "
                    f"optimizer, schedulers and callbacks, found {', '.join(sorted(unsafe))}"
                )

    def read(self, point: Point) -> list[Any] | None:
        """
        Read the states of this process, the trainer and the model to the CPU, without executing
        code. Returns `None` if a file is damaged.
        """
        try:
            return [load_torch_file(self.path(kind, point)) for kind in KINDS]
        except DamagedFileError as error:
            logger.warning("Ignoring the checkpoint of %s", error)
            return None

    def remove_leftovers(self, newest: Point | None) -> None:
        """
        Remove the files of all processes after `newest`, which are incomplete or damaged, so that
        no checkpoint mixes files of two runs.
        """
        for path, match in self._listing():
            if newest is None or _point(match) > newest:
                logger.warning("Removing %s, which belongs to no complete checkpoint.", path)
                path.unlink(missing_ok=True)
        for path in Path(self._folder).iterdir():
            if _TEMPORARY.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def remove_before(self, oldest: Point) -> None:
        """Remove the checkpoints before `oldest`."""
        # The weights are removed first, so that a partly removed checkpoint is incomplete.
        for path, match in self._listing():
            if _point(match) < oldest:
                path.unlink(missing_ok=True)  # another machine may remove it too

    def _listing(self) -> list[tuple[Path, re.Match[str]]]:
        """Path and parsed name of every checkpoint file of any process."""
        paths = sorted(Path(self._folder).iterdir())
        return [(path, match) for path in paths if (match := _NAME.fullmatch(path.name))]


def _point(match: re.Match[str]) -> Point:
    return Point(int(match["epochs"]), int(match["batches"]))


def _plain(value: Any) -> Any:
    """Replace NumPy scalars by Python's, because loading NumPy scalars would execute code."""
    if isinstance(value, numpy.generic):
        return value.item()
    if type(value) is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    return value
