"""
A text's vectors as an HDF5 file, in the layout of AllenNLP 0.9's `allennlp elmo`: a dataset for
each sentence, named by its line number, and `sentence_to_index`, a JSON string from sentence to
name.

The work is done in parts of `PART_SENTENCES` sentences. A part is written whole to a folder beside
the output, with a checksum, and all parts become the output at the end, so that an interrupted dump
continues with the first part that is missing or damaged and ends with the same numbers, to the bit.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import FileLock

from elmo_plugin.elmo.batching import MAX_TOKENS, batches_by_length
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files.atomic_write import DiskFullError, HDF5Bytes, atomic_write
from elmo_plugin.files.checksum import append_checksum, ends_in_checksum
from elmo_plugin.files.digest import digest
from elmo_plugin.modules import LSTMState

logger = logging.getLogger(__name__)

PART_SENTENCES = 4096
STATE = "state"
"""A part's group of where each row stands behind it, under `carry`."""


class Sentence(NamedTuple):
    """A line of the text, counted from 0."""

    line: int
    text: str


def dump(
    elmo: Elmo,
    sentences: Iterable[Sentence],
    out: str | os.PathLike,
    *,
    layer: str,
    settings: dict[str, Any],
    batch_size: int = 64,
    max_tokens: int = MAX_TOKENS,
    dtype: str = "float32",
    use_sentence_keys: bool = False,
    forget_sentences: bool = False,
    total: int | None = None,
) -> None:
    """
    # Parameters

    elmo : `Elmo`
        Under `carry` the sentences are read in their order, else those of a part by length.
    sentences : `Iterable[Sentence]`
        None of them empty.
    out : `str`
        The HDF5 file; it appears whole, or not at all.
    layer : `str`
        `"all"`, `"top"` or `"average"`.
    settings : `dict[str, Any]`
        What the numbers depend on beside the text; what was interrupted goes on only where they are
        the same.
    batch_size : `int`
        How many sentences are read at once under `carry`.
    max_tokens : `int`
        How many tokens are read at once otherwise.
    dtype : `str`
        Of the numbers written: `"float32"` or `"float16"`.
    use_sentence_keys : `bool`
        Name datasets by their sentences, not by line numbers; `check_sentence_keys` tells whether
        HDF5 can. Of equal sentences the last stays.
    forget_sentences : `bool`
        Leave out `sentence_to_index`. Only then memory does not grow with the text.
    total : `int | None`
        How many sentences there are, for the progress bar.

    # Raises

    `ConfigurationError`
        Where `out` is there already or another process is writing it, or an interrupted dump had
        other settings or another text.
    `DiskFullError`
        Where there is no space for a part or for `out`; what was written before is kept.
    """
    out = Path(out)
    described = json.dumps(settings, sort_keys=True)
    index: dict[str, int] = {}
    paths = []
    try:
        with _parts_folder(out) as parts, _Progress(total, out.name) as progress:
            for number, part in enumerate(_groups(sentences, PART_SENTENCES)):
                paths.append(path := parts / f"{number:08d}.hdf5")
                if path.exists() and _resume(elmo, path, part, described):
                    progress.skip(part)
                else:
                    if elmo.initial_state == "carry":
                        batches = _groups(part, batch_size)
                    else:
                        lengths = [len(sentence.text.split()) for sentence in part]
                        places = batches_by_length(lengths, max_tokens)
                        batches = ([part[place] for place in batch] for batch in places)
                    _write_part(elmo, part, path, progress.of(batches), layer, dtype, described)
                if use_sentence_keys or not forget_sentences:
                    index.update((sentence.text, sentence.line) for sentence in part)
            keys = {line: text for text, line in index.items()} if use_sentence_keys else None
            _join(paths, out, keys, None if forget_sentences or use_sentence_keys else index)
            shutil.rmtree(parts, ignore_errors=True)  # another process may just have come to it
    except DiskFullError as error:
        raise DiskFullError(
            f"{error}; with space for it, the same command goes on from where it was"
        ) from None


def check_is_new(out: str | os.PathLike) -> None:
    """
    # Raises

    `ConfigurationError`
        Where there is something in the output's place.
    """
    if Path(out).is_dir():
        raise ConfigurationError(f"{out}: expected to write a new file, found a folder")
    if Path(out).exists():
        raise ConfigurationError(
            f"{out}: expected to write a new file, found one; remove it to write it anew"
        )


@contextmanager
def _parts_folder(out: Path) -> Iterator[Path]:
    """The folder of the parts, old and new, which no other process uses meanwhile."""
    parts = out.with_name(f".{out.name}.parts")
    lock = FileLock(parts / "lock", timeout=0)
    check_is_new(out)
    try:
        parts.mkdir(exist_ok=True)
        lock.acquire()
    except TimeoutError:
        raise ConfigurationError(
            f"{out}: expected to be the only one to write it, found another process at it"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{out}: cannot be written there: {error}") from None
    try:
        check_is_new(out)  # it may have appeared meanwhile
        for temporary in parts.glob(".*"):  # of a dump that was killed
            temporary.unlink()
        yield parts
    finally:
        lock.release()


def _write_part(
    elmo: Elmo,
    part: list[Sentence],
    path: Path,
    batches: Iterable[list[Sentence]],
    layer: str,
    dtype: str,
    settings: str,
) -> None:
    # What a word's vector was computed beside may show in its last bit: each part begins anew.
    elmo.word_vectors.clear()
    with atomic_write(path) as temporary:
        with HDF5Bytes(temporary) as disk, h5py.File(disk, "w") as file:
            file.attrs["settings"] = settings
            file.attrs["text"] = _digest(part)
            for batch in batches:
                vectors = elmo.embed([sentence.text.split() for sentence in batch], layer)
                for sentence, found in zip(batch, vectors):
                    file.create_dataset(str(sentence.line), data=found.astype(dtype))
                disk.check()
            if elmo.carried_state is not None:
                for name, numbers in elmo.carried_state._asdict().items():
                    file[f"{STATE}/{name}"] = numbers.cpu().numpy()
        append_checksum(temporary)


def _resume(elmo: Elmo, path: Path, part: list[Sentence], settings: str) -> bool:
    """Whether a part is there undamaged. It must be this one; `carry` continues from its end."""
    if not ends_in_checksum(path):
        logger.warning("%s: this part of an interrupted dump is damaged, computing it again", path)
        return False
    with h5py.File(path, "r") as file:
        if file.attrs["settings"] != settings:
            raise ConfigurationError(
                f"{path.parent}: an interrupted dump is there with other settings; remove it to "
                "begin anew"
            )
        if file.attrs["text"] != _digest(part):
            raise ConfigurationError(
                f"{path.parent}: an interrupted dump is there whose text differs in the lines "
                f"{part[0].line + 1} to {part[-1].line + 1}; remove it to begin anew"
            )
        if STATE in file:
            numbers = (torch.from_numpy(file[f"{STATE}/{name}"][()]) for name in LSTMState._fields)
            device = elmo.bilm.boundaries.device
            elmo.carried_state = LSTMState(*(x.to(device) for x in numbers))
    return True


def _join(
    paths: list[Path], out: Path, keys: dict[int, str] | None, index: dict[str, int] | None
) -> None:
    """`keys`: datasets' names, if they are not the lines' numbers; `index`: `sentence_to_index`."""
    whole = out.with_name(f".{out.name}.parts") / "joined"
    with (
        atomic_write(whole) as temporary,
        HDF5Bytes(temporary) as disk,
        h5py.File(disk, "w") as joined,
    ):
        for path in paths:
            if not ends_in_checksum(path):
                raise OSError(
                    f"{path}: this part was damaged after it had been written; the same command "
                    "computes it again"
                )
            with h5py.File(path, "r") as part:
                for line in sorted(int(name) for name in part if name != STATE):
                    key = str(line) if keys is None else keys.get(line)
                    if key is None:  # an equal sentence comes later
                        continue
                    part.copy(str(line), joined, name=key)
            disk.check()
        if index is not None:
            string = h5py.special_dtype(vlen=str)
            joined.create_dataset("sentence_to_index", (1,), dtype=string)
            names = {text: str(line) for text, line in index.items()}
            joined["sentence_to_index"][0] = json.dumps(names)
    os.replace(whole, out)


class _Progress:
    """A bar of sentences with the tokens a second of those that were read now."""

    def __init__(self, total: int | None, name: str) -> None:
        self._bar = Tqdm.tqdm(total=total, unit=" sentences", desc=name)
        self._n_tokens = 0

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def skip(self, part: list[Sentence]) -> None:
        self._bar.update(len(part))

    def of(self, batches: Iterable[list[Sentence]]) -> Iterator[list[Sentence]]:
        for batch in batches:
            yield batch
            self._n_tokens += sum(len(sentence.text.split()) for sentence in batch)
            seconds = self._bar.format_dict["elapsed"] or 1.0
            self._bar.set_postfix_str(f"{self._n_tokens / seconds:,.0f} tokens/s", refresh=False)
            self._bar.update(len(batch))


def _digest(part: list[Sentence]) -> str:
    return digest("\n".join(f"{sentence.line} {sentence.text}" for sentence in part).encode())


def _groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group
