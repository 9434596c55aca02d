"""
Writes the vectors of a text to an HDF5 file in the layout of AllenNLP 0.9's `allennlp elmo`: each
sentence has a dataset named by its line number, and `sentence_to_index` is a JSON object that maps
sentences to these names.

A dump consists of parts of about `PART_SENTENCES` sentences. Each part is written with a checksum
to a folder next to the output, and the parts are joined at the end. A resumed dump computes only
the parts that are missing or damaged. Its numbers are bit-identical, because a part's batches are
always the same, and word vectors do not depend on earlier parts.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from tqdm import tqdm

from elmo_plugin.checks import MOST, InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.sentences import batches_by_length
from elmo_plugin.files.atomic_write import DiskFullError, atomic_write, check_is_new
from elmo_plugin.files.digest import append_checksum, digest, ends_in_checksum
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.hdf5 import HDF5Bytes
from elmo_plugin.modules import LSTMState
from elmo_plugin.ops.kernels import KERNEL_STATUS

logger = logging.getLogger(__name__)

PART_SENTENCES = 4096
ORDINARY_LENGTH = 32
"""Sentence length in tokens on which the batch size is based; longer sentences count as several."""
STATE = "state"
"""Group of a part with the LSTM state after its last sentence, for `carry`."""


class Line(NamedTuple):
    """A line of the text, which is a sentence; lines are counted from 0."""

    number: int
    text: str

    @property
    def tokens(self) -> list[str]:
        return self.text.split()


@dataclass(frozen=True, kw_only=True)
class DumpSettings:
    """
    What a dump contains. `layer`: `"all"`, `"top"` or `"average"`. `pool`: see `Elmo.embed`.
    `batch_size`: sentences per batch; without `carry` these are sentences of `ORDINARY_LENGTH`
    tokens, so that memory is bounded. `dtype`: `"float32"` or `"float16"`. `use_sentence_keys`:
    name datasets by sentences instead of line numbers; of equal sentences, the last one is written.
    `forget_sentences`: omit `sentence_to_index`; memory then does not grow with the text.
    """

    layer: str
    pool: str | None = None
    batch_size: int = 64
    dtype: str = "float32"
    use_sentence_keys: bool = False
    forget_sentences: bool = False

    @property
    def has_index(self) -> bool:
        """Whether the file has a `sentence_to_index`."""
        return not (self.use_sentence_keys or self.forget_sentences)


def dump(
    elmo: Elmo,
    lines: Iterable[Line],
    out: str | os.PathLike,
    settings: DumpSettings,
    total: int | None = None,
) -> None:
    """
    Compute and write the vectors of a text, or resume an interrupted dump.

    `lines`: a text without empty sentences. With `carry` they are read in order; otherwise the
    sentences of a part are sorted by length. `out`: HDF5 file to write. `total`: number of lines,
    for the progress bar.

    Raises an `InputError` if `out` exists, if another process is writing it, if an interrupted dump
    has another model, text or settings, or if a sentence cannot be the name of a dataset; and a
    `DiskFullError` if the disk is full, in which case finished parts are kept.
    """
    out = Path(os.path.realpath(out))  # a link stays
    facts = _facts(elmo, settings)
    part_size = PART_SENTENCES
    if elmo.initial_state == "carry":
        # Whole batches, because their rows continue those of the previous batch.
        part_size = max(1, PART_SENTENCES // settings.batch_size) * settings.batch_size
    elmo.same_bits = True
    index: dict[str, int] = {}
    paths = []
    try:
        with (
            _parts_folder(out) as parts,
            tqdm(total=total, unit=" sentences", desc=out.name) as progress,
        ):
            for number, part in enumerate(_groups(lines, part_size)):
                paths.append(path := parts / f"{number:08d}.hdf5")
                if path.exists() and _resume(elmo, path, part, facts):
                    progress.update(len(part))
                else:
                    _write_part(elmo, part, path, settings, facts, progress)
                if settings.use_sentence_keys or settings.has_index:
                    index.update((line.text, line.number) for line in part)
            _join(paths, parts / "joined", out, settings, index)
            shutil.rmtree(parts, ignore_errors=True)  # another process may just have opened it
    except DiskFullError as error:
        raise DiskFullError(
            f"{error}; once there is space, the same command resumes the dump"
        ) from None


def batches_of(elmo: Elmo, part: list[Line], batch_size: int) -> Iterator[list[Line]]:
    """The batches in which a part is read."""
    if elmo.initial_state == "carry":
        yield from _groups(part, batch_size)
        return
    lengths = [len(line.tokens) for line in part]
    for places in batches_by_length(lengths, batch_size * ORDINARY_LENGTH):
        yield [part[place] for place in places]


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
        for temporary in parts.glob(".*"):  # of a dump that was killed
            temporary.unlink()
        yield parts
    finally:
        lock.release()


def _write_part(
    elmo: Elmo,
    part: list[Line],
    path: Path,
    settings: DumpSettings,
    facts: dict[str, Any],
    progress: Any,
) -> None:
    elmo.cache_words({word for line in part for word in line.tokens})
    with atomic_write(path) as temporary:
        with HDF5Bytes(temporary) as disk, h5py.File(disk, "w") as file:
            file.attrs["settings"] = json.dumps(facts)
            file.attrs["text"] = _digest(part)
            for batch in batches_of(elmo, part, settings.batch_size):
                tokens = [line.tokens for line in batch]
                vectors = elmo.embed(tokens, settings.layer, pool=settings.pool, max_tokens=MOST)
                for line, found in zip(batch, vectors):
                    with np.errstate(over="ignore"):
                        numbers = found.astype(settings.dtype)
                    if not np.isfinite(numbers).all():
                        raise InputError(
                            f"line {line.number + 1}: expected numbers that {settings.dtype} can "
                            f"hold, found {np.abs(found).max():.3g} in its vectors"
                        )
                    file.create_dataset(str(line.number), data=numbers)
                disk.check()
                progress.update(len(batch))
            for name, numbers in elmo.carried.resume_state().items():
                file[f"{STATE}/{name}"] = numbers.cpu().numpy()
        append_checksum(temporary)


def _resume(elmo: Elmo, path: Path, part: list[Line], facts: dict[str, Any]) -> bool:
    """
    Whether an existing part is undamaged. With `carry`, sets the state that the next part needs.
    Raises an `InputError` if the part has other facts or another text.
    """
    if not ends_in_checksum(path):
        logger.warning("%s: this part of an interrupted dump is damaged, computing it again", path)
        return False
    with h5py.File(path, "r") as file:
        stored = json.loads(file.attrs["settings"])
        for name, value in facts.items():
            if (before := stored.get(name)) != value:
                raise InputError(
                    f"{path.parent}: expected the {name} of the interrupted dump, {before}, "
                    f"found {value}; use the same, or remove the folder to start from scratch"
                )
        if file.attrs["text"] != _digest(part):
            raise InputError(
                f"{path.parent}: expected an interrupted dump of the same text, found one of "
                f"another text in lines {part[0].number + 1} to {part[-1].number + 1}; remove it "
                "to start from scratch"
            )
        if STATE in file:
            carried = {name: torch.from_numpy(x[()]) for name, x in file[STATE].items()}
            elmo.carried.state = LSTMState.from_stored(carried, elmo.device)
    return True


def _join(
    paths: list[Path], whole: Path, out: Path, settings: DumpSettings, index: dict[str, int]
) -> None:
    """Join the parts, first as `whole`. `index`: the last line of each sentence."""
    keys = {line: text for text, line in index.items()} if settings.use_sentence_keys else None
    with (
        atomic_write(whole) as temporary,
        HDF5Bytes(temporary) as disk,
        h5py.File(disk, "w") as joined,
    ):
        for path in paths:
            if not ends_in_checksum(path):
                raise OSError(
                    f"{path}: expected the part as it was written, found damage; the same command "
                    "computes it again"
                )
            with h5py.File(path, "r") as part:
                for line in sorted(int(name) for name in part if name != STATE):
                    key = str(line) if keys is None else keys.get(line)
                    if key is None:  # an equal sentence follows
                        continue
                    try:
                        if "\0" in key:  # HDF5 would truncate the name there
                            raise ValueError
                        part.copy(str(line), joined, name=key)
                    except (RuntimeError, ValueError):
                        raise InputError(
                            f"{out}: line {line + 1}: {key!r}: HDF5 cannot have a dataset of this "
                            "name, or not next to those of other lines, because a slash separates "
                            "groups; leave out --use-sentence-keys, and nothing is computed again"
                        ) from None
            disk.check()
        if settings.has_index:
            string = h5py.special_dtype(vlen=str)
            joined.create_dataset("sentence_to_index", (1,), dtype=string)
            names = {text: str(line) for text, line in index.items()}
            joined["sentence_to_index"][0] = json.dumps(names)
    os.replace(whole, out)


def _facts(elmo: Elmo, settings: DumpSettings) -> dict[str, Any]:
    """Everything that affects the numbers bit by bit, except the text."""
    device = elmo.device
    # Other numbers of threads, and other processors, may round differently.
    is_gpu = device.type == "cuda"
    return {
        "model": elmo.fingerprint().hex(),
        "layers": settings.layer,
        "pool": settings.pool,
        "batch size": settings.batch_size,
        "type of numbers": settings.dtype,
        "version of PyTorch": torch.__version__,
        "kernels": KERNEL_STATUS,
        "GPU": torch.cuda.get_device_name(device) if is_gpu else None,
        "processor": None if is_gpu else torch.backends.cpu.get_cpu_capability(),
        "number of threads (OMP_NUM_THREADS)": None if is_gpu else torch.get_num_threads(),
    }


def _digest(part: list[Line]) -> str:
    return digest("\n".join(f"{line.number} {line.text}" for line in part).encode())


def _groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group
