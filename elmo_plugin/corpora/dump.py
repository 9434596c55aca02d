"""
Writes the vectors of a text to an HDF5 file in the layout of AllenNLP 0.9's `allennlp elmo`: each
sentence has a dataset named by its line number, and `sentence_to_index` is a JSON object that maps
sentences to these names. Vectors of whole sentences can be written as one array of NumPy instead.
"""

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from elmo_plugin.checks import MOST, InputError
from elmo_plugin.corpora.parts import COMPUTED_WITH, PART_SENTENCES, join_files, write_results
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.layers import batches_by_length
from elmo_plugin.files.hdf5 import HDF5Bytes, open_hdf5
from elmo_plugin.text.advice import advised
from elmo_plugin.text.raw_text import raw_facts
from elmo_plugin.text.sentence import Row, Sentence, groups

NPY = ".npy"
"""The ending of NumPy's files."""

CARRIED_ROWS = 64
"""With `carry`, vectors depend on this number, so that it is the same on any device."""

ORDINARY_LENGTH = 32
"""Sentence length in tokens on which the batch size is based; longer sentences count as several."""


@dataclass(frozen=True, kw_only=True)
class DumpSettings:
    """
    What a dump contains. `layer`: `"all"`, `"top"`, `"average"` or a number. `pool`: see
    `Elmo.embed`. `batch_size`: sentences per batch, under `carry` by default `CARRIED_ROWS`;
    without it these are sentences of `ORDINARY_LENGTH` tokens, so that memory is bounded, and the
    default is `BiLMLayers.max_tokens`. `dtype`: `"float32"` or `"float16"`.
    `use_sentence_keys`: name datasets by sentences instead of line numbers; of equal sentences, the
    last one is written. `forget_sentences`: omit `sentence_to_index`; memory then does not grow
    with the text. `raw`: whether the tokens are those of raw text, for the record of the parts.
    """

    layer: str | int
    pool: str | None = None
    batch_size: int | None = None
    dtype: str = "float32"
    use_sentence_keys: bool = False
    forget_sentences: bool = False
    raw: bool | str = False


@advised()
def dump(
    elmo: Elmo,
    lines: Iterable[tuple[str, Row]],
    out: str | os.PathLike,
    settings: DumpSettings,
    total: int | None = None,
) -> None:
    """
    Compute and write the vectors of a text, or resume an interrupted dump.

    `lines`: the name of each line in `sentence_to_index`, and its sentences, none of which is
    empty. With `carry` they are read in order; otherwise the
    sentences of a part are sorted by length. `out`: HDF5 file to write, or with `pool` a file whose
    name ends in `NPY`, with an array of shape `(N, 2P)`, or `(N, L + 1, 2P)` for all layers, in the
    order of the text. `total`: see `write_results`.

    Raises errors as `write_results`, and an `InputError` if a sentence cannot be the name of a
    dataset.
    """
    is_matrix = settings.pool is not None and str(out).endswith(NPY)
    with elmo.snapshot(same_bits=True) as now:
        results = (_Matrix if is_matrix else _Vectors)(now, out, settings)
        write_results(results, now, results.indexed(lines), out, total)


def line_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, Row]]:
    """Numbered lines of tokens, as `dump` reads them."""
    for number, text in lines:
        yield text.lstrip(), [Sentence(text.split(), number)]


class _Vectors:
    """The vectors of a text as `Results`."""

    layout: str | None = None

    def __init__(self, elmo: Elmo, out: str | os.PathLike, settings: DumpSettings) -> None:
        self._elmo = elmo
        self._out = out
        self._settings = settings
        self._index: dict[str, int] = {}  # the last line of each sentence
        self.facts = {
            "layers": settings.layer,
            "pool": settings.pool,
            "type of numbers": settings.dtype,
            "layout": self.layout,
            **raw_facts(settings.raw),
        }
        is_carried = elmo.initial_state == "carry"
        by_default = CARRIED_ROWS if is_carried else elmo.max_tokens(None) // ORDINARY_LENGTH
        self._batch_size = settings.batch_size or by_default
        self.rounding = {"batch size": self._batch_size}
        self.part_size = PART_SENTENCES
        if is_carried:
            # Whole batches, because their rows continue those of the previous batch.
            n_batches = max(1, PART_SENTENCES // self._batch_size)
            self.part_size = n_batches * self._batch_size
            self.facts |= self.rounding  # which then says which sentence a row continues

    def indexed(self, lines: Iterable[tuple[str, Row]]) -> Iterator[Row]:
        """The sentences of the lines, which are indexed as they are read."""
        for name, row in lines:
            if self._settings.use_sentence_keys or not self._settings.forget_sentences:
                self._index[name] = row[0].row
            yield row

    def write(self, rows: list[Row], path: Path, done: Callable[[int], object]) -> None:
        with HDF5Bytes(path) as disk, h5py.File(disk, "w") as file:
            for places, vectors in self._read(rows):
                for place, numbers in zip(places, vectors):
                    file.create_dataset(str(rows[place][0].row), data=numbers)
                disk.check()
                done(len(places))

    def _read(self, rows: list[Row]) -> Iterator[tuple[list[int], list[np.ndarray]]]:
        """The indices of the rows of each batch, and their vectors as they are stored."""
        settings = self._settings
        self._elmo.cache_words({word for row in rows for x in row for word in x.tokens})
        for places in self._batches(rows):
            batch = [rows[place] for place in places]
            options = {"pool": settings.pool, "max_tokens": MOST}
            whole = self._elmo.embed_rows(batch, settings.layer, **options)
            with np.errstate(over="ignore"):
                vectors = [x.astype(settings.dtype) for x in whole]
            for row, x, stored in zip(batch, whole, vectors):
                if not np.isfinite(stored).all():
                    raise InputError(
                        f"line {row[0].row + 1}: expected numbers that {settings.dtype} can "
                        f"hold, found {np.abs(x).max():.3g} in its vectors"
                    )
            yield places, vectors

    def _batches(self, rows: list[Row]) -> Iterable[list[int]]:
        size = self._batch_size
        if self._elmo.initial_state == "carry":
            return groups(range(len(rows)), size)
        lengths = [sum(len(x.tokens) for x in row) for row in rows]
        return batches_by_length(lengths, size * ORDINARY_LENGTH)

    def join(self, parts: Iterable[Path], path: Path, computed_with: str | None) -> None:
        has_sentence_keys = self._settings.use_sentence_keys
        keys = {line: text for text, line in self._index.items()} if has_sentence_keys else None
        with HDF5Bytes(path) as disk, h5py.File(disk, "w") as joined:
            if computed_with is not None:
                joined.attrs[COMPUTED_WITH] = computed_with
            for file in parts:
                with open_hdf5(file) as part:
                    for line in sorted(map(int, part)):
                        key = str(line) if keys is None else keys.get(line)
                        if key is not None:  # otherwise an equal sentence follows
                            self._copy(part, line, joined, key)
                disk.check()
            if not (has_sentence_keys or self._settings.forget_sentences):
                string = h5py.special_dtype(vlen=str)
                joined.create_dataset("sentence_to_index", (1,), dtype=string)
                names = {text: str(line) for text, line in self._index.items()}
                joined["sentence_to_index"][0] = json.dumps(names)

    def _copy(self, part: h5py.File, line: int, joined: h5py.File, key: str) -> None:
        try:
            if "\0" in key:  # HDF5 would truncate the name there
                raise ValueError
            part.copy(str(line), joined, name=key)
        except (RuntimeError, ValueError):
            raise InputError(
                f"{self._out}: line {line + 1}: {key!r}: HDF5 cannot have a dataset of this name, "
                "or not next to those of other lines, because a slash separates groups; leave out "
                "--use-sentence-keys, and nothing is computed again"
            ) from None


class _Matrix(_Vectors):
    """The vectors of sentences as one array in NumPy's format. A part has its rows alone."""

    layout = NPY

    def _empty(self, n_rows: int) -> np.ndarray:
        none = self._elmo.embed([], self._settings.layer, pool=self._settings.pool)
        return np.empty((n_rows, *none.shape[1:]), self._settings.dtype)

    def write(self, rows: list[Row], path: Path, done: Callable[[int], object]) -> None:
        matrix = self._empty(len(rows))
        for places, vectors in self._read(rows):
            matrix[places] = vectors
            done(len(places))
        path.write_bytes(matrix.data)

    def join(self, parts: Iterable[Path], path: Path, computed_with: str | None) -> None:
        files, row = list(parts), self._empty(1)
        n = sum(file.stat().st_size for file in files) // row.nbytes
        facts = np.lib.format.header_data_from_array_1_0(row) | {"shape": (n, *row.shape[1:])}
        np.lib.format.write_array_header_1_0(header := io.BytesIO(), facts)
        # Not a memory map: if the disk is full, writing to one kills the process.
        join_files(header.getvalue(), files, path, self._out, computed_with)
