"""
Writes the vectors of a text to an HDF5 file in the layout of AllenNLP 0.9's `allennlp elmo`: each
sentence has a dataset named by its line number, and `sentence_to_index` is a JSON object that maps
sentences to these names.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from elmo_plugin.checks import MOST, InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.parts import PART_SENTENCES, STATE, Line, groups, write_in_parts
from elmo_plugin.elmo.sentences import batches_by_length
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.hdf5 import HDF5Bytes

ORDINARY_LENGTH = 32
"""Sentence length in tokens on which the batch size is based; longer sentences count as several."""

BYTES_PER_SENTENCE = 250
"""Bytes that HDF5 adds to the numbers of a dataset."""


@dataclass(frozen=True, kw_only=True)
class DumpSettings:
    """
    What a dump contains. `layer`: `"all"`, `"top"`, `"average"` or a number. `pool`: see
    `Elmo.embed`.
    `batch_size`: sentences per batch; without `carry` these are sentences of `ORDINARY_LENGTH`
    tokens, so that memory is bounded. `dtype`: `"float32"` or `"float16"`. `use_sentence_keys`:
    name datasets by sentences instead of line numbers; of equal sentences, the last one is written.
    `forget_sentences`: omit `sentence_to_index`; memory then does not grow with the text.
    """

    layer: str | int
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
    seconds: float = 0.1,
) -> None:
    """
    Compute and write the vectors of a text, or resume an interrupted dump.

    `lines`: a text without empty sentences. With `carry` they are read in order; otherwise the
    sentences of a part are sorted by length. `out`: HDF5 file to write. `total` and `seconds`: see
    `write_in_parts`.

    Raises errors as `write_in_parts`, and an `InputError` if a sentence cannot be the name of a
    dataset.
    """
    facts = {
        "layers": settings.layer,
        "pool": settings.pool,
        "batch size": settings.batch_size,
        "type of numbers": settings.dtype,
    }
    part_sentences = PART_SENTENCES
    if elmo.initial_state == "carry":
        # Whole batches, because their rows continue those of the previous batch.
        part_sentences = max(1, PART_SENTENCES // settings.batch_size) * settings.batch_size
    index: dict[str, int] = {}

    def indexed() -> Iterator[Line]:
        for line in lines:
            if settings.use_sentence_keys or settings.has_index:
                index[line.text.lstrip()] = line.number
            yield line

    def write(part: list[Line], file: h5py.File) -> Iterator[int]:
        elmo.cache_words({word for line in part for word in line.tokens})
        lengths = [len(line.tokens) for line in part]
        batches = batches_by_length(lengths, settings.batch_size * ORDINARY_LENGTH)
        if elmo.initial_state == "carry":
            batches = groups(range(len(part)), settings.batch_size)
        for places in batches:
            _write_batch(elmo, [part[place] for place in places], file, settings)
            yield len(places)

    def join(parts: Iterator[h5py.File], whole: Path) -> None:
        _join(parts, whole, Path(out), settings, index)

    write_in_parts(
        elmo,
        indexed(),
        out,
        facts,
        write,
        join,
        part_sentences=part_sentences,
        total=total,
        seconds=seconds,
    )


def _write_batch(elmo: Elmo, batch: list[Line], file: h5py.File, settings: DumpSettings) -> None:
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


def _join(
    parts: Iterator[h5py.File],
    whole: Path,
    out: Path,
    settings: DumpSettings,
    index: dict[str, int],
) -> None:
    """Join the parts, first as `whole`. `index`: the last line of each sentence."""
    keys = {line: text for text, line in index.items()} if settings.use_sentence_keys else None
    with (
        atomic_write(whole) as temporary,
        HDF5Bytes(temporary) as disk,
        h5py.File(disk, "w") as joined,
    ):
        for part in parts:
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


class TextSize(NamedTuple):
    """The size of a text. `n_bytes`: in UTF-8."""

    n_sentences: int
    n_tokens: int
    n_bytes: int


def measure_text(lines: Iterable[Line]) -> TextSize:
    """Reads a text once."""
    n_sentences = n_tokens = n_bytes = 0
    for line in lines:
        n_sentences += 1
        n_tokens += len(line.tokens)
        n_bytes += len(line.text.encode())
    return TextSize(n_sentences, n_tokens, n_bytes)


def bytes_of_dump(elmo: Elmo, size: TextSize, settings: DumpSettings) -> int:
    """
    The bytes of the file, within a few percent. The parts, which are deleted at the end, take as
    many.
    """
    n_layers = elmo.n_layers if settings.layer == "all" else 1
    n_vectors = (size.n_sentences if settings.pool else size.n_tokens) * n_layers
    numbers = n_vectors * elmo.output_dim * np.dtype(settings.dtype).itemsize
    n_bytes = numbers + size.n_sentences * BYTES_PER_SENTENCE
    if settings.has_index:
        n_bytes += size.n_bytes + size.n_sentences * len(f'"": "{size.n_sentences}", ')
    return n_bytes
