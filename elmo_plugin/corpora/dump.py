"""
Writes the vectors of a text to an HDF5 file in the layout of AllenNLP 0.9's `allennlp elmo`, or
those of whole sentences as one array of NumPy.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from elmo_plugin.checks import MOST, InputError
from elmo_plugin.corpora.parts import PART_SENTENCES, write_results
from elmo_plugin.corpora.writers import LineVectors, Matrix
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.layers import batches_by_length
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
    `Elmo.embed`. `batch_size`: sentences per batch, with `carry` by default `CARRIED_ROWS`;
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
    empty. With `carry` they are read in order; otherwise the sentences of a part are sorted by
    length. `out`: HDF5 file to write, or with `pool` a file whose name ends in `NPY`, with an array
    of shape `(N, 2P)`, or `(N, L + 1, 2P)` for all layers, in the order of the text. `total`: see
    `write_results`.

    Raises errors as `write_results`, and an `InputError` if a sentence cannot be the name of a
    dataset.
    """
    is_matrix = settings.pool is not None and str(out).endswith(NPY)
    index: dict[str, int] | None = {}  # the last line of each sentence
    if settings.forget_sentences and not settings.use_sentence_keys:
        index = None
    facts = {
        "layers": settings.layer,
        "pool": settings.pool,
        "type of numbers": settings.dtype,
        "layout": NPY if is_matrix else None,
        **raw_facts(settings.raw),
    }
    size = _batch_size(elmo, settings)
    part_size, rounding = PART_SENTENCES, {"batch size": size}
    if elmo.initial_state == "carry":
        # Whole batches, because their rows continue those of the previous batch.
        part_size = max(1, PART_SENTENCES // size) * size
        facts |= rounding  # which then says which sentence a row continues
    with elmo.snapshot(same_bits=True) as now:
        compute = partial(_vectors, now, size, settings)
        writer: Any = LineVectors(index, settings.use_sentence_keys)
        if is_matrix:
            none = now.embed([], settings.layer, pool=settings.pool)
            writer = Matrix(none.shape[1:], settings.dtype)
        rows = groups(_indexed(lines, index), part_size)
        write_results(out, writer, compute, now, rows, facts, rounding, total)


def _batch_size(elmo: Elmo, settings: DumpSettings) -> int:
    by_tokens = elmo.max_tokens(None) // ORDINARY_LENGTH
    by_default = CARRIED_ROWS if elmo.initial_state == "carry" else by_tokens
    return settings.batch_size or by_default


def line_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, Row]]:
    """Numbered lines of tokens, as `dump` reads them."""
    for number, text in lines:
        yield text.lstrip(), [Sentence(text.split(), number)]


def _indexed(lines: Iterable[tuple[str, Row]], index: dict[str, int] | None) -> Iterator[Row]:
    """The sentences of the lines, which are indexed as they are read."""
    for name, row in lines:
        if index is not None:
            index[name] = row[0].row
        yield row


def _vectors(
    elmo: Elmo, size: int, settings: DumpSettings, rows: list[Row]
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """The number of lines of each batch, and their vectors as they are stored, by line."""
    elmo.cache_words({word for row in rows for x in row for word in x.tokens})
    for batch in _batches(elmo, size, rows):
        options = {"pool": settings.pool, "max_tokens": MOST}
        vectors = {}
        for row, x in zip(batch, elmo.embed_rows(batch, settings.layer, **options)):
            with np.errstate(over="ignore"):
                vectors[row[0].row] = stored = x.astype(settings.dtype)
            if not np.isfinite(stored).all():
                raise InputError(
                    f"line {row[0].row + 1}: expected numbers that {settings.dtype} can hold, "
                    f"found {np.abs(x).max():.3g} in its vectors"
                )
        yield len(batch), vectors


def _batches(elmo: Elmo, size: int, rows: list[Row]) -> Iterable[list[Row]]:
    if elmo.initial_state == "carry":
        return groups(rows, size)
    lengths = [sum(len(x.tokens) for x in row) for row in rows]
    by_length = batches_by_length(lengths, size * ORDINARY_LENGTH)
    return ([rows[place] for place in places] for places in by_length)
