"""The size of a dump's file and the time that the dump takes, before it is started."""

import time
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import torch

from elmo_plugin.elmo.dump import Sentence, batches_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.word_cache import CAPACITY

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
    sample: list[Sentence]


def measure_text(sentences: Iterable[Sentence]) -> TextSize:
    """Reads a text once."""
    n_sentences = n_tokens = n_words = n_bytes = 0
    sample: list[Sentence] = []
    cached: set[str] = set()
    random = Random(0)
    for sentence in sentences:
        tokens = sentence.tokens
        n_sentences += 1
        n_tokens += len(tokens)
        n_bytes += len(sentence.text.encode())
        n_words += len(new := set(tokens) - cached)
        if len(cached) + len(new) > CAPACITY:
            cached.clear()
        cached |= new
        if len(sample) < SAMPLE:
            sample.append(sentence)
        elif (place := random.randrange(n_sentences)) < SAMPLE:
            sample[place] = sentence
    return TextSize(n_sentences, n_tokens, n_words, n_bytes, sample)


def bytes_of_dump(
    elmo: Elmo, size: TextSize, layer: str, pool: str | None, dtype: str, has_index: bool
) -> int:
    """
    The bytes of the file, within a few percent. The parts, which are deleted at the end, take as
    many. `has_index`: whether there is a `sentence_to_index`; see `dump` for the others.
    """
    n_vectors = (size.n_sentences if pool else size.n_tokens) * (
        elmo.n_layers if layer == "all" else 1
    )
    numbers = n_vectors * elmo.output_dim * torch.finfo(getattr(torch, dtype)).bits // 8
    index = size.n_bytes + size.n_sentences * len(f'"": "{size.n_sentences}", ') if has_index else 0
    return numbers + size.n_sentences * BYTES_PER_SENTENCE + index


def seconds_of_dump(elmo: Elmo, size: TextSize, batch_size: int) -> float:
    """
    The time that the dump of a whole text takes, from that of its sample: one rate for words to
    encode, and one for tokens to read. Clears carried states.
    """
    if not size.sample:
        return 0.0
    elmo.layers(elmo.bilm, elmo.characters([["the"]]))  # packs weights
    words = {word for sentence in size.sample for word in sentence.tokens}
    start = time.perf_counter()
    elmo.cache_words(words)
    encoded = time.perf_counter()
    n_read = 0
    for batch in batches_of(elmo, size.sample, batch_size):
        tokens = [sentence.tokens for sentence in batch]
        torch.stack(elmo.layers(elmo.bilm, elmo.characters(tokens), boundaries=False)[0]).cpu()
        n_read += sum(map(len, tokens))
        if (end := time.perf_counter()) > start + SECONDS:
            break
    elmo.carried.state = None
    return (encoded - start) / len(words) * size.n_words + (end - encoded) / n_read * size.n_tokens
