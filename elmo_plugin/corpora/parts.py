"""
Writes the results for a text in parts, so that an interrupted run can be resumed.

A part has the results for some thousand sentences. It is written to a folder next to the output,
under a name that is the digest of everything it depends on, and the parts are joined at the end. A
resumed run computes only the parts that are missing or damaged. Its results are bit-identical,
because a part's batches are always the same, and word vectors do not depend on earlier parts.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from elmo_plugin.checks import InputError
from elmo_plugin.corpora.writers import Writer
from elmo_plugin.elmo.frozen import bytes_of
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.files.atomic_write import DiskFullError, atomic_write, check_is_new
from elmo_plugin.files.digest import digest, file_checksum, is_sealed, sealed
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.interrupts import replace_output
from elmo_plugin.files.torch_file import DamagedFileError, load_torch_file, save_torch_file
from elmo_plugin.modules import LSTMState
from elmo_plugin.ops.backend import KERNEL_STATUS

logger = logging.getLogger(__name__)

PART_SENTENCES = 4096

FACTS = "facts.json"
"""
A file that says in words what the parts are of, for the error of a run of something else. It is
the first that is removed once the output is in its place, after which the parts are not needed.
"""
RECORD = ".record"
"""Ending of the file that is written after a part: its checksum, rounding and carried state."""


def write_results(
    out: str | os.PathLike,
    writer: Writer,
    compute: Callable[[list[Any]], Iterable[tuple[int, Any]]],
    model: BiLMLayers,
    groups: Iterable[list[Any]],
    facts: dict[str, Any],
    rounding: dict[str, Any] | None = None,
    total: int | None = None,
) -> None:
    """
    Compute and write the results for a text, or resume an interrupted run.

    `out`: the file to write, by `writer`. `compute`: gives the results for the sentences of a part
    in batches, each with the number of sentences that it is for. `model`: a `snapshot` with the
    `same_bits`, so that all parts are from the same weights. `groups`: the sentences of each part.
    `facts`: everything that affects the results, except the model and the sentences. `rounding`:
    settings that change only how numbers are rounded, and may be others when a run is resumed; then
    a warning names them, and the output records them. `total`: the number of sentences, for the
    progress bar.

    Raises an `InputError` if `out` exists, if another process is writing it, or if an interrupted
    run has another model, other settings or a text that begins differently; and a `DiskFullError`
    if the disk is full, in which case finished parts are kept.
    """
    given, out = Path(out), Path(os.path.realpath(out))  # a link stays
    facts = {"version of the parts": 4} | facts | facts_of(model)
    own_rounding = (rounding or {}) | rounding_of(model)
    parts: list[tuple[Path, str | None]] = []  # and checksums that are not compared yet
    runs: list[tuple[int, dict[str, Any]]] = []  # the first sentence of parts rounded alike
    with (
        _carried_on(model),
        _parts_folder(out) as folder,
        tqdm(total=total, unit=" sentences", desc=out.name) as progress,
    ):
        name, first = "", 1
        for group in groups:
            if not parts:
                beginning = f"text of sentences 1 to {len(group)}"
                _check_facts(folder, facts | {beginning: digest(repr(group).encode())})
            before = name if model.initial_state == "carry" else ""
            name = digest(repr((facts, before, group)).encode())
            path = folder / f"{name}.part"
            record = _stored(path)
            part_rounding = record["rounding"] if record else own_rounding
            if not runs or runs[-1][1] != part_rounding:
                runs.append((first, part_rounding))
                _warn_of_rounding(out, runs)
            if record:
                if record["state"]:
                    model.carried.state = LSTMState.from_stored(record["state"], model.device)
                progress.update(len(group))
                parts.append((path, None))
            else:
                results = _counted(compute(group), progress)
                parts.append((path, _write(path, writer, results, own_rounding, model)))
            first += len(group)
        with atomic_write(folder / "joined") as temporary:
            with_others = [{"from sentence": first} | settings for first, settings in runs]
            computed_with = json.dumps(with_others) if len(runs) > 1 else None
            writer.join((_checked(*part) for part in parts), temporary, given, computed_with)
        replace_output(folder / "joined", out)
        (folder / FACTS).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)  # another process may just have opened it


def _counted(results: Iterable[tuple[int, Any]], progress: Any) -> Iterator[Any]:
    for n_sentences, result in results:
        yield result
        progress.update(n_sentences)


def _stored(path: Path) -> dict[str, Any] | None:
    """The record of a part that is there and undamaged."""
    record_file = path.with_suffix(RECORD)
    if not record_file.exists():
        return None
    with suppress(DamagedFileError, FileNotFoundError):
        record = load_torch_file(record_file)
        if file_checksum(path) == record["checksum"]:
            return record
    logger.warning("%s: this part of an interrupted run is damaged, computing it again", path)
    return None


def _write(
    path: Path, writer: Writer, results: Iterator[Any], rounding: dict[str, Any], model: BiLMLayers
) -> str:
    """Write a part, and then its record. Returns its checksum."""
    with atomic_write(path) as temporary:
        writer.write(results, temporary)
        checksum = file_checksum(temporary)
    record = {"checksum": checksum, "rounding": rounding, "state": model.resume_state()}
    with atomic_write(path.with_suffix(RECORD)) as temporary:
        save_torch_file(record, temporary)
    return checksum


def _checked(path: Path, checksum: str | None) -> Path:
    """A part, which is read to check it unless it was before. Raises an `OSError`."""
    if checksum not in (None, file_checksum(path)):
        raise OSError(
            f"{path}: expected the part as it was written, found damage; the same command computes "
            "it again"
        )
    return path


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
    if Path(out).exists() and not (folder / FACTS).exists():
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


def _has_parts(folder: Path) -> bool:
    return any(folder.glob(f"*{RECORD}"))


def _remove_unless_parts(folder: Path) -> None:
    # `Path` raises an error for a name that is too long.
    if os.path.isdir(folder) and not _has_parts(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _check_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write what the parts are of. Raises an `InputError` if there are some of something else."""
    stored: Any = None
    with suppress(OSError, ValueError):
        stored = json.loads((folder / FACTS).read_bytes())
    if _has_parts(folder) and is_sealed(stored):
        for name, value in facts.items():
            if (before := stored.get(name)) != value:
                raise InputError(
                    f"{folder}: expected the {name} of the interrupted run, {before}, found "
                    f"{value}; use the same, or remove the folder to start from scratch"
                )
    with atomic_write(folder / FACTS) as temporary:
        temporary.write_text(json.dumps(sealed(facts)), "utf-8")


def facts_of(model: BiLMLayers) -> dict[str, Any]:
    """What affects a model's numbers, apart from `rounding_of`."""
    state = model.resume_state()  # from which a text is read with `carry`
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
