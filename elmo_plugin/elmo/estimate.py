"""The size of a dump's file and the time that the dump takes, before it is started."""

import time
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import numpy as np
import torch

from elmo_plugin.elmo.dump import DumpSettings, batches_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.frozen import CAPACITY
from elmo_plugin.elmo.parts import Line

SAMPLE = 256
"""Sentences of the text that are measured, at most."""
SECONDS = 2.0
"""The measurement begins no further batch after this time."""
BYTES_PER_SENTENCE = 250
"""Bytes that HDF5 adds to the numbers of a dataset."""


class TextSize(NamedTuple):
    """
    What the size and the time of a dump depend on. `n_words`: how many times a word is encoded,
    once for each distinct word that the cache still has. `n_bytes`: the text in UTF-8. `sample`:
    some of the sentences, each with the same probability.
    """

    n_sentences: int
    n_tokens: int
    n_words: int
    n_bytes: int
    sample: list[Line]


def measure_text(lines: Iterable[Line]) -> TextSize:
    """Reads a text once."""
    n_sentences = n_tokens = n_words = n_bytes = 0
    sample: list[Line] = []
    cached: set[str] = set()
    random = Random(0)
    for line in lines:
        tokens = line.tokens
        n_sentences += 1
        n_tokens += len(tokens)
        n_bytes += len(line.text.encode())
        n_words += len(new := set(tokens) - cached)
        if len(cached) + len(new) > CAPACITY:
            cached.clear()
        cached |= new
        if len(sample) < SAMPLE:
            sample.append(line)
        elif (place := random.randrange(n_sentences)) < SAMPLE:
            sample[place] = line
    return TextSize(n_sentences, n_tokens, n_words, n_bytes, sample)


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


def seconds_of_dump(elmo: Elmo, size: TextSize, settings: DumpSettings) -> float:
    """
    The time that the dump of a whole text takes, from that of its sample: one rate for words to
    encode, and one for tokens to read. Clears carried states.
    """
    if not size.sample:
        return 0.0
    elmo.layers(elmo.characters([["the"]]))  # packs weights
    words = {word for line in size.sample for word in line.tokens}
    start = time.perf_counter()
    elmo.cache_words(words)
    encoded = time.perf_counter()
    n_read = 0
    for batch in batches_of(elmo, size.sample, settings.batch_size):
        tokens = [line.tokens for line in batch]
        torch.stack(elmo.layers(elmo.characters(tokens), boundaries=False)[0]).cpu()
        n_read += sum(map(len, tokens))
        if (end := time.perf_counter()) > start + SECONDS:
            break
    elmo.carried.state = None
    return (encoded - start) / len(words) * size.n_words + (end - encoded) / n_read * size.n_tokens
