"""
Writes the results for a text in parts, so that an interrupted run can be resumed.

A part has the results for some thousand sentences. It is written to a folder next to the output,
with a record of what it was computed from, and the parts are joined at the end. A resumed run
computes only the parts that are missing or damaged. Its results are bit-identical, because a part's
batches are always the same, and word vectors do not depend on earlier parts.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import h5py
import torch
from tqdm import tqdm

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.frozen import bytes_of
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.files.atomic_write import DiskFullError, atomic_write, check_is_new
from elmo_plugin.files.digest import append_checksum, digest, ends_in_checksum, file_checksum
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.hdf5 import HDF5Bytes, open_hdf5
from elmo_plugin.files.interrupts import replace_output
from elmo_plugin.modules import LSTMState
from elmo_plugin.ops.backend import KERNEL_STATUS
from elmo_plugin.text.sentence import groups

logger = logging.getLogger(__name__)

PART_SENTENCES = 4096

COMPUTED_WITH = "computed_with"
"""The attribute of an HDF5 file that says which parts were rounded in which way."""


class Results(Protocol):
    """
    A kind of results. `facts`: everything that affects them, except the model and the sentences.
    `rounding`: settings that change only how numbers are rounded, and may be others when a run is
    resumed. `part_size`: the number of sentences of a part, which does not depend on `rounding`.
    """

    facts: dict[str, Any]
    rounding: dict[str, Any]
    part_size: int

    def write(self, sentences: list[Any], path: Path, done: Callable[[int], object]) -> None:
        """Write the results for a part to a file, and say after each batch how many are done."""

    def join(self, parts: Iterable[Path], path: Path, computed_with: str | None) -> None:
        """
        Write the output from the files of all parts, and record what they were `computed_with`:
        JSON, or `None` if it was the same for all parts.
        """


def write_results(
    results: Results,
    model: BiLMLayers,
    sentences: Iterable[Any],
    out: str | os.PathLike,
    total: int | None = None,
    divide: Callable[[Iterable[Any], int], Iterator[list[Any]]] = groups,
) -> None:
    """
    Compute and write the results for a text, or resume an interrupted run. `model`: a `snapshot`
    with the `same_bits`, so that all parts are from the same weights. `out`: the file to write.
    `total`: the number of sentences, for the progress bar. `divide`: divides them into parts. If an
    interrupted run had other settings that change only the rounding, a warning names them, and the
    output records them.

    Raises an `InputError` if `out` exists, if another process is writing it, or if an interrupted
    run has another model, text or settings; and a `DiskFullError` if the disk is full, in which
    case finished parts are kept.
    """
    out = Path(os.path.realpath(out))  # a link stays
    facts = {"version of the parts": 3} | results.facts | facts_of(model)
    rounding = results.rounding | rounding_of(model)
    parts: list[_Part] = []
    runs: list[tuple[int, dict[str, Any]]] = []  # the parts that were rounded alike
    with (
        _carried_on(model),
        _parts_folder(out) as folder,
        tqdm(total=total, unit=" sentences", desc=out.name) as progress,
    ):
        first = 0
        for group in divide(sentences, results.part_size):
            parts.append(part := _Part(folder, first, group, facts, rounding))
            is_there = part.is_there(model)
            if not runs or runs[-1][1] != part.rounding:
                runs.append((first + 1, part.rounding))
                _warn_of_rounding(out, runs)
            if is_there:
                progress.update(len(group))
            else:
                part.write(partial(results.write, group, done=progress.update), model)
            first += len(group)
        with atomic_write(folder / "joined") as temporary:
            with_others = [{"from sentence": first} | settings for first, settings in runs]
            computed_with = json.dumps(with_others) if len(runs) > 1 else None
            results.join((part.checked_path() for part in parts), temporary, computed_with)
        (folder / FINISHED).touch()
        replace_output(folder / "joined", out)
        shutil.rmtree(folder, ignore_errors=True)  # another process may just have opened it


def join_files(
    header: bytes,
    parts: Iterable[Path],
    path: Path,
    out: str | os.PathLike,
    computed_with: str | None,
) -> None:
    """
    Write a header and the files of all parts to `path`, one after the other. This output has no
    place for what it was computed with, which is recorded in a file next to `out`.
    """
    with path.open("wb") as joined:
        joined.write(header)
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined)
    record = Path(f"{out}.{COMPUTED_WITH}.json")
    record.unlink(missing_ok=True)  # of an earlier file of this name
    if computed_with is not None:
        with atomic_write(record) as temporary:
            temporary.write_text(computed_with + "\n", "utf-8")


def _warn_of_rounding(out: Path, runs: list[tuple[int, dict[str, Any]]]) -> None:
    if len(runs) > 1:
        (_, before), (first, settings) = runs[-2:]
        changed = [name for name in settings if settings[name] != before.get(name)]
        logger.warning(
            "%s: computed with another %s from sentence %d on than before, so that the numbers are "
            "equal to those of a run without interruption up to rounding",
            out,
            ", ".join(f"{name}, {settings[name]} ({before.get(name)})" for name in changed),
            first,
        )


@contextmanager
def _carried_on(model: BiLMLayers) -> Iterator[None]:
    """After an error the carried state is as it was, so that the same call resumes the run."""
    state = model.carried.state
    try:
        yield
    except BaseException:
        model.carried.state = state
        raise


def check_no_results(out: str | os.PathLike) -> None:
    """
    Raise an `InputError` if the file `out` exists. The parts of the run that finished it, which are
    there if it was killed at its end, are removed.
    """
    folder = _folder_of(Path(os.path.realpath(out)))
    if Path(out).exists() and (folder / FINISHED).exists():
        shutil.rmtree(folder, ignore_errors=True)
    check_is_new(out)


def _folder_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.parts")


@contextmanager
def _parts_folder(out: Path) -> Iterator[Path]:
    """The folder of the parts, locked against other processes. It stays if there are any."""
    folder = _folder_of(out)
    lock = FileLock(folder / "lock", timeout=0)
    try:
        folder.mkdir(exist_ok=True)
        lock.acquire()
    except TimeoutError:
        raise InputError(
            f"{out}: expected to be the only process that writes it, found another one"
        ) from None
    except OSError as error:  # for example a name that is too long
        _remove_unless_parts(folder)
        raise InputError(f"{out}: expected a place to write to, found: {error}") from None
    try:
        check_no_results(out)  # it may have been created meanwhile
        yield folder
    except DiskFullError as error:
        raise DiskFullError(
            f"{error}; once there is space, the same command resumes the run"
        ) from None
    finally:
        _remove_unless_parts(folder)
        lock.release()


def _remove_unless_parts(folder: Path) -> None:
    # `Path` raises an error for a name that is too long.
    if os.path.isdir(folder) and not any(folder.glob(f"*{RECORD}")):
        shutil.rmtree(folder, ignore_errors=True)


FINISHED = "finished"
"""A file that is created just before the output, after which the parts are not needed."""
RECORD = ".record"
"""Ending of the file that says what a part was computed from."""


class _Part:
    """A part of a run: the file of its results, and its record, which is written after it."""

    def __init__(
        self,
        folder: Path,
        first: int,
        sentences: list[Any],
        facts: dict[str, Any],
        rounding: dict[str, Any],
    ) -> None:
        self._path = folder / f"{first:010d}.part"
        self._record = self._path.with_suffix(RECORD)
        place = f"text of sentences {first + 1} to {first + len(sentences)}"
        self._facts = facts | {place: digest(repr(sentences).encode())}
        self.rounding = rounding
        self._checksum = ""
        self._is_checked = False

    def write(self, write: Callable[[Path], None], model: BiLMLayers) -> None:
        with atomic_write(self._path) as temporary:
            write(temporary)
            self._checksum = file_checksum(temporary)
        with atomic_write(self._record) as temporary:
            with HDF5Bytes(temporary) as disk, h5py.File(disk, "w") as record:
                record.attrs["facts"] = json.dumps(self._facts)
                record.attrs["rounding"] = json.dumps(self.rounding)
                record.attrs["checksum"] = self._checksum
                for name, numbers in model.resume_state().items():
                    record[name] = numbers.cpu().numpy()
            append_checksum(temporary)

    def is_there(self, model: BiLMLayers) -> bool:
        """
        Whether the part is there and undamaged; then sets its `rounding` and, under `carry`, the
        state after it. Raises an `InputError` if it has other facts.
        """
        if not self._record.exists():
            return False
        if ends_in_checksum(self._record):
            with open_hdf5(self._record) as record:
                self._check_facts(json.loads(record.attrs["facts"]))
                self._checksum = record.attrs["checksum"]
                rounding = json.loads(record.attrs["rounding"])
                state = {name: torch.from_numpy(x[()]) for name, x in record.items()}
            self._is_checked = self._path.exists() and self._checksum == file_checksum(self._path)
        if not self._is_checked:
            logger.warning(
                "%s: this part of an interrupted run is damaged, computing it again", self._path
            )
            return False
        self.rounding = rounding
        if state:
            model.carried.state = LSTMState.from_stored(state, model.device)
        return True

    def _check_facts(self, stored: dict[str, Any]) -> None:
        for name, value in self._facts.items():
            if (before := stored.get(name)) != value:
                raise InputError(
                    f"{self._path.parent}: expected the {name} of the interrupted run, {before}, "
                    f"found {value}; use the same, or remove the folder to start from scratch"
                )

    def checked_path(self) -> Path:
        """The file of the results, which is read once to check it. Raises an `OSError`."""
        if not self._is_checked and file_checksum(self._path) != self._checksum:
            raise OSError(
                f"{self._path}: expected the part as it was written, found damage; the same "
                "command computes it again"
            )
        return self._path


def facts_of(model: BiLMLayers) -> dict[str, Any]:
    """What affects a model's numbers, apart from `rounding_of`."""
    state = model.resume_state()  # from which a text is read under `carry`
    return {
        "precision": model.bilm.precision,  # that of this device: int8 needs the kernels
        "model": model.fingerprint().hex(),
        "carried state": digest(b"".join(map(bytes_of, state.values()))) if state else None,
        "version of PyTorch": torch.__version__,
    }


def rounding_of(model: BiLMLayers) -> dict[str, Any]:
    """What changes how a model's numbers are rounded."""
    is_gpu = model.device.type == "cuda"
    return {
        "kernels": KERNEL_STATUS,
        "GPU": torch.cuda.get_device_name(model.device) if is_gpu else None,
        "processor": None if is_gpu else torch.backends.cpu.get_cpu_capability(),
        "number of threads (OMP_NUM_THREADS)": None if is_gpu else torch.get_num_threads(),
    }
