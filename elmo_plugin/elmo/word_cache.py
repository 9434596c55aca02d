from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.numerics_key import numerics_key, tensor_versions

CAPACITY = 2**15
"""Capacity in words, which are 64 MiB of vectors at the paper's P = 512."""

FEWEST = 8
"""
The fewest words in a batch for the encoder; smaller batches are repeated. Matrix products of fewer
rows round differently on CPUs, and a word's vector must not depend on which words were cached.
"""


class WordVectorCache(nn.Module):
    """
    A cache of the vectors that a frozen token encoder computes of words. It is cleared when it is
    full, and when the weights or the precision of the encoder change.

    It has no parameters and saves nothing, and a copy of it is empty. Several threads may share it.

    # Parameters

    capacity : `int`
        The highest number of words.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__()
        self.capacity = capacity
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._key: Any = None
        self._rows: dict[bytes, int] = {}
        self._vectors: Tensor | None = None

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return WordVectorCache, (self.capacity,)

    def forward(self, encoder: nn.Module, words: Tensor) -> Tensor:
        """
        Word vectors of shape `(U, P)`. `encoder` is the token encoder, which is called only for
        words that are not cached. `words`: character ids of shape `(U, C)` or word ids of shape
        `(U,)`, preferably distinct.
        """
        # Cached vectors may be used outside of inference mode.
        with self._lock, torch.inference_mode(False), torch.no_grad():
            key = numerics_key(encoder), words.device, tensor_versions(encoder.parameters())
            if key != self._key:
                self.clear()
                self._key = key
            return self._look_up(encoder, words)

    def _look_up(self, encoder: nn.Module, words: Tensor) -> Tensor:
        keys = [row.tobytes() for row in words.to("cpu", torch.int32).numpy()]
        new = {key: i for i, key in enumerate(keys) if key not in self._rows}
        if len(self._rows) + len(new) > self.capacity:
            self._rows = {}
            new = {key: i for i, key in enumerate(keys)}
        if len(new) > self.capacity:
            return encoder(words)
        if new:
            filled = list(new.values()) * (-(-FEWEST // len(new)))
            vectors = encoder(words[filled])[: len(new)]
            if self._vectors is None:
                self._vectors = vectors.new_empty(self.capacity, vectors.size(1))
            rows = range(len(self._rows), len(self._rows) + len(new))
            self._vectors[rows.start : rows.stop] = vectors
            self._rows.update(zip(new, rows))
        if self._vectors is None:
            return encoder(words)
        found = torch.tensor([self._rows[key] for key in keys], device=words.device)
        return self._vectors[found]
