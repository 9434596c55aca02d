"""
Writes the results for a text in parts, so that an interrupted run can be resumed.

A part has about `PART_SENTENCES` sentences. It is written with a checksum to a folder next to the
output, and the parts are joined at the end. A resumed run computes only the parts that are missing
or damaged. Its numbers are bit-identical, because a part's batches are always the same, and word
vectors do not depend on earlier parts.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import h5py
import torch
from tqdm import tqdm

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.frozen import bytes_of
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.files.atomic_write import DiskFullError, atomic_write, check_is_new
from elmo_plugin.files.digest import append_checksum, digest, ends_in_checksum
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.hdf5 import HDF5Bytes
from elmo_plugin.modules import LSTMState
from elmo_plugin.ops.backend import KERNEL_STATUS
from elmo_plugin.text.lines import read_blocks

logger = logging.getLogger(__name__)

PART_SENTENCES = 4096
STATE = "state"
"""Group of a part with the LSTM state after its last sentence, for `carry`."""


class Line(NamedTuple):
    """A line of the text, which is a sentence; lines are counted from 0."""

    number: int
    text: str

    @property
    def tokens(self) -> list[str]:
        return self.text.split()


def read_lines(file: Path | BinaryIO, name: str, first: int = 0, step: int = 1) -> Iterator[Line]:
    """
    Every `step`-th line of a file from line `first` on; raises errors as `sentence_lines` and
    `read_blocks`.
    """
    return sentence_lines(chain.from_iterable(read_blocks(file, name=name)), name, first, step)


def sentence_lines(
    texts: Iterable[str], name: str, first: int = 0, step: int = 1
) -> Iterator[Line]:
    """
    Every `step`-th of the lines of the text `name` from line `first` on. Raises an `InputError`
    that names the line if it is blank.
    """
    for number, text in islice(enumerate(texts), first, None, step):
        line = Line(number, text.rstrip())  # raw text has its places from the start of the line
        if not line.text:
            raise InputError(f"{name}, line {number + 1}: expected a sentence, found an empty line")
        yield line


def write_in_parts(
    model: BiLMLayers,
    lines: Iterable[Line],
    out: str | os.PathLike,
    facts: dict[str, Any],
    write: Callable[[list[Line], h5py.File], Iterator[int]],
    join: Callable[[Iterator[h5py.File], Path], None],
    *,
    part_sentences: int,
    total: int | None = None,
    seconds: float = 0.1,
) -> None:
    """
    Compute and write the results for a text, or resume an interrupted run.

    `out`: the file to write. `facts`: everything that affects the numbers, except the text and the
    `facts_of` the model. `write`: writes the results for a part to its file, and yields after each
    batch how many sentences it had. `join`: writes the output from the files of all parts. `total`:
    number of lines, for the progress bar, which is updated after at least so many `seconds`.

    Raises an `InputError` if `out` exists, if another process is writing it, or if an interrupted
    run has another model, text or settings; and a `DiskFullError` if the disk is full, in which
    case finished parts are kept.
    """
    out = Path(os.path.realpath(out))  # a link stays
    facts = facts | facts_of(model)
    state = model.carried.state  # of an interrupted run, so that the same call resumes it
    model.same_bits = True
    paths = []
    try:
        with (
            _parts_folder(out) as parts,
            tqdm(total=total, unit=" sentences", desc=out.name, mininterval=seconds) as progress,
        ):
            for number, part in enumerate(groups(lines, part_sentences)):
                paths.append(path := parts / f"{number:08d}.hdf5")
                if path.exists() and _resume(model, path, part, facts):
                    progress.update(len(part))
                else:
                    _write_part(model, part, path, facts, write, progress)
            join(_whole_parts(paths), parts / "joined")
            os.replace(parts / "joined", out)
            shutil.rmtree(parts, ignore_errors=True)  # another process may just have opened it
        state = model.carried.state
    except DiskFullError as error:
        raise DiskFullError(
            f"{error}; once there is space, the same command resumes the run"
        ) from None
    finally:
        model.carried.state, model.same_bits = state, False


@contextmanager
def _parts_folder(out: Path) -> Iterator[Path]:
    """The folder of the parts, locked against other processes."""
    parts = out.with_name(f".{out.name}.parts")
    lock = FileLock(parts / "lock", timeout=0)
    try:
        parts.mkdir(exist_ok=True)
        lock.acquire()
    except TimeoutError:
        raise InputError(
            f"{out}: expected to be the only process that writes it, found another one"
        ) from None
    except OSError as error:  # for example a name that is too long
        raise InputError(f"{out}: expected a place to write to, found: {error}") from None
    try:
        check_is_new(out)  # it may have been created meanwhile
        for temporary in parts.glob(".*"):  # of a run that was killed
            temporary.unlink()
        yield parts
    finally:
        lock.release()


def _write_part(
    model: BiLMLayers,
    part: list[Line],
    path: Path,
    facts: dict[str, Any],
    write: Callable[[list[Line], h5py.File], Iterator[int]],
    progress: Any,
) -> None:
    with atomic_write(path) as temporary:
        with HDF5Bytes(temporary) as disk, h5py.File(disk, "w") as file:
            file.attrs["settings"] = json.dumps(facts)
            file.attrs["text"] = _digest(part)
            for n_sentences in write(part, file):
                disk.check()
                progress.update(n_sentences)
            for name, numbers in model.carried.resume_state().items():
                file[f"{STATE}/{name}"] = numbers.cpu().numpy()
        append_checksum(temporary)


def _resume(model: BiLMLayers, path: Path, part: list[Line], facts: dict[str, Any]) -> bool:
    """
    Whether an existing part is undamaged. With `carry`, sets the state that the next part needs.
    Raises an `InputError` if the part has other facts or another text.
    """
    if not ends_in_checksum(path):
        logger.warning("%s: this part of an interrupted run is damaged, computing it again", path)
        return False
    with h5py.File(path, "r") as file:
        stored = json.loads(file.attrs["settings"])
        for name, value in facts.items():
            if (before := stored.get(name)) != value:
                raise InputError(
                    f"{path.parent}: expected the {name} of the interrupted run, {before}, "
                    f"found {value}; use the same, or remove the folder to start from scratch"
                )
        if file.attrs["text"] != _digest(part):
            raise InputError(
                f"{path.parent}: expected an interrupted run of the same text, found one of "
                f"another text in lines {part[0].number + 1} to {part[-1].number + 1}; remove it "
                "to start from scratch"
            )
        if STATE in file:
            carried = {name: torch.from_numpy(x[()]) for name, x in file[STATE].items()}
            model.carried.state = LSTMState.from_stored(carried, model.device)
    return True


def _whole_parts(paths: list[Path]) -> Iterator[h5py.File]:
    for path in paths:
        if not ends_in_checksum(path):
            raise OSError(
                f"{path}: expected the part as it was written, found damage; the same command "
                "computes it again"
            )
        with h5py.File(path, "r") as part:
            yield part


def facts_of(model: BiLMLayers) -> dict[str, Any]:
    """What affects a model's numbers bit by bit."""
    # Other numbers of threads, and other processors, may round differently.
    is_gpu = model.device.type == "cuda"
    return {
        "precision": model.bilm.precision,
        "model": model.fingerprint().hex(),
        "carried state": _digest_of_state(model),
        "version of PyTorch": torch.__version__,
        "kernels": KERNEL_STATUS,
        "GPU": torch.cuda.get_device_name(model.device) if is_gpu else None,
        "processor": None if is_gpu else torch.backends.cpu.get_cpu_capability(),
        "number of threads (OMP_NUM_THREADS)": None if is_gpu else torch.get_num_threads(),
    }


def _digest_of_state(model: BiLMLayers) -> str | None:
    """The digest of the state from which a text is read under `carry`."""
    state = model.carried.resume_state()
    return digest(b"".join(bytes_of(x) for x in state.values())) if state else None


def _digest(part: list[Line]) -> str:
    return digest("\n".join(f"{line.number} {line.text}" for line in part).encode())


def groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group
