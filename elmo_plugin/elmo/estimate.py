"""The size of a dump's file, before the dump is started."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from elmo_plugin.elmo.dump import DumpSettings
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.parts import Line

BYTES_PER_SENTENCE = 250
"""Bytes that HDF5 adds to the numbers of a dataset."""


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
