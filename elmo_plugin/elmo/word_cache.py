import torch
from torch import Tensor, nn

from elmo_plugin.elmo.shared_lock import SharedLock

CAPACITY = 2**15
"""Capacity in words: 64 MiB of vectors at the paper's P = 512."""

FEWEST = 8
"""
Minimum batch size of the encoder in words; smaller batches are repeated. Matrix products of fewer
rows round differently on CPUs, and a word's vector must not depend on which words were cached.
"""

BLOCK = 256
"""Batch size of the encoder in words if word vectors must be bit-identical in all batches."""


class WordVectorCache(nn.Module):
    """
    A frozen token encoder with a cache of its word vectors, which is cleared when it is full.
    Threads may share it.

    `encoder`: maps character ids of shape `(U, C)` to vectors of shape `(U, P)`. `capacity`: the
    maximum number of words. `same_bits`: whether word vectors are bit-identical regardless of batch
    composition: the encoder then reads words in blocks of `BLOCK`, padded with repeated words.
    Otherwise the last bit may differ.
    """

    def __init__(
        self, encoder: nn.Module, capacity: int = CAPACITY, same_bits: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.capacity = capacity
        self.same_bits = same_bits
        self._lock = SharedLock()
        self._rows: dict[bytes, int] = {}
        self._vectors: Tensor | None = None

    def forward(self, words: Tensor) -> Tensor:
        """
        Word vectors, shape `(U, P)`. Only words that are not cached are encoded. `words`: character
        ids, shape `(U, C)`, preferably distinct.
        """
        # Cached vectors may be used outside inference mode.
        with self._lock.alone(), torch.inference_mode(False), torch.no_grad():
            return self._look_up(words)

    def _look_up(self, words: Tensor) -> Tensor:
        keys = [row.tobytes() for row in words.to("cpu", torch.int32).numpy()]
        new = {key: i for i, key in enumerate(keys) if key not in self._rows}
        if len(self._rows) + len(new) > self.capacity:
            self._rows = {}
            new = {key: i for i, key in enumerate(keys)}
        if len(new) > self.capacity:
            return self._encode(words)
        if new:
            vectors = self._encode(words[list(new.values())])
            if self._vectors is None:
                self._vectors = vectors.new_empty(self.capacity, vectors.size(1))
            rows = range(len(self._rows), len(self._rows) + len(new))
            self._vectors[rows.start : rows.stop] = vectors
            self._rows.update(zip(new, rows))
        if self._vectors is None:
            return self.encoder(words)
        # Without a dtype, an empty index (only empty sentences) would be float.
        found = [self._rows[key] for key in keys]
        return self._vectors[torch.tensor(found, dtype=torch.long, device=words.device)]

    def _encode(self, words: Tensor) -> Tensor:
        """The vectors of at least one word."""
        vectors = []
        for block in words.split(BLOCK if self.same_bits else len(words)):
            n_words = BLOCK if self.same_bits else max(FEWEST, len(block))
            filled = torch.arange(n_words, device=words.device) % len(block)
            vectors.append(self.encoder(block[filled])[: len(block)])
        return torch.cat(vectors)
