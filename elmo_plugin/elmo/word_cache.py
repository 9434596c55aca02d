from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.numerics_key import numerics_key, tensor_versions

CAPACITY = 2**15
"""Words; 64 MiB of vectors at the original's P = 512."""

FEWEST = 8
"""
A CPU multiplies matrices of very few rows in another way, with other roundings. Fewer new words are
filled up to so many, so that a word's vector does not tell what was remembered when it came.
"""


class WordVectorCache(nn.Module):
    """
    Remembers what a frozen token encoder said of a word, from batch to batch: a word's vector is
    the same wherever and whenever it stands. When it is full, or the encoder's weights or precision
    are others, it begins anew.

    Holds no parameters and nothing that is saved; a copy begins with nothing. Several threads may
    share it.

    # Parameters

    capacity : `int`
        The most words that are kept.
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
        # Parameters

        encoder : `nn.Module`
            From words to vectors; asked only for those that are new.
        words : `Tensor`
            Shape `(U, C)` or `(U,)`, best distinct.

        # Returns

        `Tensor`
            Shape `(U, P)`.
        """
        # What is remembered may be wanted outside of inference mode.
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
