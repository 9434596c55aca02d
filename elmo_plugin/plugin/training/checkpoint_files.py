"""Names, writes, reads and removes the files of exact checkpoints."""

import logging
import os
import pickle
import re
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy
from torch.serialization import get_unsafe_globals_in_checkpoint

from elmo_plugin.checks import InputError
from elmo_plugin.files.torch_file import (
    DamagedFileError,
    find_not_plain,
    load_torch_file,
    save_torch_file,
)

logger = logging.getLogger(__name__)

_NAME = re.compile(
    r"(?:model_state|training_state|rank_state)_e(?P<epochs>\d+)_b(?P<batches>\d+)"
    r"(?:_w(?P<rank>\d+)of(?P<world_size>\d+))?\.th"
)


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

    def rank_state(self, point: Point) -> str:
        name = f"rank_state_e{point.epochs}_b{point.batches}_w{self._rank}of{self._world_size}.th"
        return os.path.join(self._folder, name)

    def training_state(self, point: Point) -> str:
        return os.path.join(self._folder, f"training_state_e{point.epochs}_b{point.batches}.th")

    def model_state(self, point: Point) -> str:
        return os.path.join(self._folder, f"model_state_e{point.epochs}_b{point.batches}.th")

    def best(self) -> str:
        return os.path.join(self._folder, "best.th")

    def temporary(self, path: str) -> str:
        """
        Temporary file of this process, renamed to `path` once it is complete. Another run that
        writes to the same folder by mistake uses other names.
        """
        return f"{path}.w{self._rank}.{os.getpid()}.tmp"

    def complete(self) -> list[Point]:
        """Checkpoints that have all files this process needs, the newest first."""
        points = {_point(match) for _, match in self._listing()}
        whole = (point for point in points if all(map(os.path.exists, self._paths(point))))
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
        temporary = self.temporary(path)
        try:
            save_torch_file(_plain(state), temporary)
            unsafe = get_unsafe_globals_in_checkpoint(temporary)
            if unsafe:
                raise TypeError(", ".join(sorted(unsafe)))
            os.replace(temporary, path)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"Could not write {path}: expected tensors and plain Python values in the states "
                f"of the model, optimizer, schedulers and callbacks, but found {error}."
            ) from error
        except (OSError, RuntimeError, ValueError) as error:
            raise OSError(
                f"Could not write {path} ({error}). Earlier checkpoints are kept: remove "
                f"the cause and continue with --recover."
            ) from error
        finally:
            remove(temporary)

    def read(self, point: Point) -> tuple[Any, Any, Any] | None:
        """
        Read the states of this process, the trainer and the model to the CPU, without executing
        code. Returns `None` if a file is damaged.
        """
        states = []
        for path in self._paths(point):
            try:
                state = load_torch_file(path)
                # The weights are compared with the model, which may have sparse ones.
                other = path != self.model_state(point) and find_not_plain(state)
                if not isinstance(state, dict) or other:
                    found = other or f"a value of type {type(state).__name__}"
                    raise DamagedFileError(f"{path}: expected a checkpoint's file, found {found}")
            except DamagedFileError as error:
                logger.warning("Ignoring the checkpoint of %s", error)
                return None
            states.append(state)
        rank_state, training_state, model_state = states
        return rank_state, training_state, model_state

    def remove_leftovers(self, newest: Point | None) -> None:
        """
        Remove this process's files of all checkpoints after `newest`, which are incomplete or
        damaged, so that no checkpoint mixes files of two runs.
        """
        for path, match in self._listing():
            is_later = newest is None or _point(match) > newest
            if match["rank"] == str(self._rank) and is_later:
                logger.warning("Removing %s, which belongs to no complete checkpoint.", path)
                remove(path)
        for name in os.listdir(self._folder):
            is_best = self._rank == 0 and name.startswith(".best.th.")  # within an epoch
            if is_best or re.search(rf"\.th\.w{self._rank}\.\d+\.tmp$", name):
                remove(os.path.join(self._folder, name))

    def remove_before(self, newest: Point, keep: Collection[Point]) -> None:
        """Remove the checkpoints before `newest`, except those in `keep`."""
        # The weights are removed first, so that a partly removed checkpoint is incomplete.
        for path, match in self._listing():
            if _point(match) < newest and _point(match) not in keep:
                remove(path)

    def _paths(self, point: Point) -> tuple[str, str, str]:
        return self.rank_state(point), self.training_state(point), self.model_state(point)

    def _listing(self) -> list[tuple[str, re.Match[str]]]:
        """Path and parsed name of every checkpoint file of any process."""
        listing = []
        for name in sorted(os.listdir(self._folder)):
            match = _NAME.fullmatch(name)
            if match is not None:
                listing.append((os.path.join(self._folder, name), match))
        return listing


def remove(path: str) -> None:
    """Remove a file if it exists."""
    if os.path.lexists(path):
        os.remove(path)


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
