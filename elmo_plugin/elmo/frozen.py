"""
A biLM that is not trained. It computes the equations of `modules/` with everything that can be
computed once: packed weights, the tables of the convolutions, the state after the first boundary
and a cache of word vectors.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from elmo_plugin.elmo.frozen_state import FrozenState, bytes_of, frozen_state
from elmo_plugin.elmo.shared_lock import SharedLock, made_once
from elmo_plugin.files.digest import new_digest
from elmo_plugin.modules import BiLM, CharCNN, LSTMState, ProjectedLSTM
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.modules.token_encoder import filled, rounded_up
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.char_conv import frozen_convolve
from elmo_plugin.ops.linear import Linear, batched_matmul, pack_weights, product_dtype
from elmo_plugin.ops.lstm import LSTMWeights, pack_lstm_weights, quantize_lstm_weights
from elmo_plugin.version import VERSION

CAPACITY = 2**15
"""Capacity of the cache in words: 64 MiB of vectors at the paper's P = 512."""

WORDS_AT_ONCE = 256
"""Batch size of the encoder in words if word vectors must be bit-identical in all batches."""


class FrozenBiLM:
    """
    A snapshot of a `BiLM` whose `frozen_state` is `state`, which is valid while this state stays
    the same. It has no dropout and no gradient. Threads may share it.

    `initial_state`: see `Elmo`. `same_bits`: see `WordVectorCache`.
    """

    def __init__(self, bilm: BiLM, state: FrozenState, initial_state: str, same_bits: bool) -> None:
        self.bilm = bilm
        self.lock = SharedLock()
        self.made_for = state, initial_state, same_bits
        # The settings have the precision that is permitted, and not that of this device.
        self._facts = VERSION, initial_state, bilm.precision, state.settings

    def is_valid(self) -> bool:
        """Whether the biLM has not changed since."""
        return frozen_state(self.bilm) == self.made_for[0]

    @made_once
    def packed(self) -> BiLM:
        """A copy of the biLM, made when a sentence is first read and not found on disk."""
        _, initial_state, same_bits = self.made_for
        with torch.inference_mode(False), torch.no_grad():  # it may be used outside inference mode
            bilm = cast(BiLM, _packed(self.bilm, {}))
            start = bilm.initial_state(initial_state, 1)
            self._starts = {True: start, False: bilm.after_boundary(start)}
        encoder: Any = WordVectorCache(bilm.token_encoder, CAPACITY, same_bits)
        bilm.token_encoder = encoder
        return bilm

    @torch.no_grad()
    def sentences(self, tokens: Tensor, lengths: Tensor, state: LSTMState) -> SentenceLayers:
        """See `BiLM.sentences`, with boundaries."""
        return self.packed.sentences(tokens, lengths, state)

    @torch.no_grad()
    def layers(self, tokens: Tensor, lengths: Tensor, boundaries: bool) -> list[Tensor]:
        """
        The layers of sentences; see `BiLM.sentences`. Without boundaries two steps fewer are
        computed, because the state after the first one is the same for all sentences.
        """
        bilm = self.packed
        state = self._starts[boundaries].expand(len(tokens))
        return bilm.sentences(tokens, lengths, state, boundaries).layers

    @torch.no_grad()
    def cache_words(self, words: Tensor) -> None:
        """Cache the vectors of distinct words; `words`: character ids, shape `(U, C)`."""
        self.packed.token_encoder(words)

    @made_once
    def digest(self) -> bytes:
        """A digest of the weights and settings that a sentence's layers depend on."""
        digest = new_digest(repr(self._facts).encode())
        for tensor in self.made_for[0].tensors:
            digest.update(bytes_of(tensor))
        return digest.digest()


class WordVectorCache(nn.Module):
    """
    A frozen token encoder with a cache of its word vectors, which is cleared when it is full.
    Threads may share it.

    `encoder`: maps character ids of shape `(U, C)` to vectors of shape `(U, P)`. `capacity`: the
    maximum number of words. `same_bits`: whether word vectors are bit-identical regardless of batch
    composition: the encoder then reads `WORDS_AT_ONCE`, padded with repeated words. Otherwise the
    last bit may differ.
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
        for block in words.split(WORDS_AT_ONCE if self.same_bits else len(words)):
            batch = filled(block, WORDS_AT_ONCE if self.same_bits else rounded_up(len(block)))
            vectors.append(self.encoder(batch)[: len(block)])
        return torch.cat(vectors)


def _packed(module: nn.Module, known: dict[nn.Module, nn.Module]) -> nn.Module:
    """
    A copy in evaluation mode that shares the tensors of a plain module, with packed weights for its
    products. `known`: the copies of the modules that occur twice.
    """
    if module not in known:
        kind: Any = _KINDS.get(type(module), type(module))
        twin = known[module] = kind.__new__(kind)
        twin.__dict__.update(
            module.__dict__,
            training=False,
            _parameters=dict(module._parameters),
            _buffers=dict(module._buffers),
            _modules={name: x and _packed(x, known) for name, x in module._modules.items()},
        )
        if kind in _KINDS.values():
            twin.pack()
    return known[module]


class _PackedLinear(Linear):
    def pack(self) -> None:
        weight = self.weight.detach()
        self._packed = pack_weights(weight.to(product_dtype(weight, self.precision)).t()[None])

    def forward(self, x: Tensor) -> Tensor:
        return batched_matmul(x[None], self._packed)[0].add_(self.bias)


class _PackedLSTM(ProjectedLSTM):
    def pack(self) -> None:
        pack = pack_lstm_weights
        if self.precision == torch.int8 and quantizes(self.input_weight):
            pack, self.precision = quantize_lstm_weights, None  # of weights that were not rounded
        self._packed = pack(super().weights())

    def weights(self) -> LSTMWeights:
        return self._packed


class _TabledCharCNN(CharCNN):
    def pack(self) -> None:
        self._convolve = frozen_convolve(self.char_embedding, self.convolutions)

    def convolve(self, characters: Tensor) -> Tensor:
        return self._convolve(characters)


_KINDS: dict[type, type] = {
    Linear: _PackedLinear,
    ProjectedLSTM: _PackedLSTM,
    CharCNN: _TabledCharCNN,
}
