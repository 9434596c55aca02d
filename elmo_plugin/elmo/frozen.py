"""
A biLM that is not trained. It computes the equations of `modules/` with everything that can be
computed once: packed weights, the tables of the convolutions, the state after the first boundary
and a cache of word vectors.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from elmo_plugin.elmo.frozen_state import FrozenState
from elmo_plugin.elmo.word_cache import WordVectorCache
from elmo_plugin.files.digest import new_digest
from elmo_plugin.modules import BiLM, CharCNN, LSTMState, ProjectedLSTM
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.ops.char_conv import convolution_tables, is_usual, max_of_convolutions
from elmo_plugin.ops.linear import Linear, batched_matmul, is_on_cpu, pack_weights, product_dtype
from elmo_plugin.ops.lstm import LSTMWeights, pack_lstm_weights
from elmo_plugin.version import VERSION


class FrozenBiLM:
    """
    A snapshot of a `BiLM` that has a `frozen_state`, and is valid while this state stays the same.
    It has no dropout and no gradient. Threads may share it.

    `words`: capacity and `same_bits` of its `WordVectorCache`.
    """

    def __init__(self, bilm: BiLM, state: FrozenState, words: tuple[int, bool]) -> None:
        self.state = state
        self.words = words
        self._original = bilm
        self._precision = bilm.precision
        self._digests: dict[str, bytes] = {}

    @cached_property
    def _bilm(self) -> BiLM:
        """A copy of the biLM, made when a sentence is first read and not found on disk."""
        with torch.inference_mode(False), torch.no_grad():  # it may be used outside inference mode
            bilm = cast(BiLM, _frozen(self._original, {}))
            self._starts = {
                kind: bilm.after_boundary(bilm.initial_state(kind, 1)) for kind in ("zero", "warm")
            }
        encoder: Any = WordVectorCache(bilm.token_encoder, *self.words)
        bilm.token_encoder = encoder
        return bilm

    @torch.no_grad()
    def sentences(self, tokens: Tensor, lengths: Tensor, state: LSTMState) -> SentenceLayers:
        """See `BiLM.sentences`, with boundaries."""
        return self._bilm.sentences(tokens, lengths, state)

    @torch.no_grad()
    def layers(
        self, tokens: Tensor, lengths: Tensor, initial_state: str, boundaries: bool
    ) -> list[Tensor]:
        """
        The layers of sentences that start from `"zero"` or `"warm"`. Without boundaries two steps
        fewer are computed, because the state after the first one is the same for all sentences.
        """
        bilm = self._bilm
        if boundaries:
            state = bilm.initial_state(initial_state, len(tokens))
        else:
            state = self._starts[initial_state].expand(len(tokens))
        return bilm.sentences(tokens, lengths, state, boundaries).layers

    @torch.no_grad()
    def cache_words(self, words: Tensor) -> None:
        """Cache the vectors of distinct words; `words`: character ids, shape `(U, C)`."""
        self._bilm.token_encoder(words)

    def digest(self, initial_state: str) -> bytes:
        """A digest of the weights and settings that a sentence's layers depend on."""
        if initial_state not in self._digests:
            # The settings have the precision that is permitted, and not that of this device.
            facts = VERSION, initial_state, self._precision, self.state.settings
            digest = new_digest(repr(facts).encode())
            for tensor in self.state.tensors:
                numbers = tensor.detach().cpu().contiguous().view(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            self._digests[initial_state] = digest.digest()
        return self._digests[initial_state]


def _frozen(module: nn.Module, known: dict[nn.Module, nn.Module]) -> nn.Module:
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
            _modules={name: x and _frozen(x, known) for name, x in module._modules.items()},
        )
        if kind in _KINDS.values():
            twin.pack()
    return known[module]


class _PackedLinear(Linear):
    def pack(self) -> None:
        weight = self.weight.detach()
        [self._packed] = pack_weights([weight.to(product_dtype(weight, self.precision)).t()[None]])

    def forward(self, x: Tensor) -> Tensor:
        return batched_matmul(x[None], self._packed)[0].add_(self.bias)


class _PackedLSTM(ProjectedLSTM):
    def pack(self) -> None:
        self._packed = pack_lstm_weights(super().weights())

    def weights(self) -> LSTMWeights:
        return self._packed


class _TabledCharCNN(CharCNN):
    _tables: list[Tensor] | None

    def pack(self) -> None:
        embedding, convolutions = self.char_embedding, list(self.convolutions)
        self._tables = None
        if is_usual(embedding, convolutions) and is_on_cpu(embedding.weight):
            with torch.autocast("cpu", enabled=False):
                weights = [embedding.weight, *(conv.weight for conv in convolutions)]
                self._tables = convolution_tables(weights)

    def convolve(self, characters: Tensor) -> Tensor:
        if self._tables is None:
            return super().convolve(characters)
        weights = [(conv.weight, conv.bias) for conv in self.convolutions]
        return max_of_convolutions(characters, self.char_embedding.weight, weights, self._tables)


_KINDS: dict[type, type] = {
    Linear: _PackedLinear,
    ProjectedLSTM: _PackedLSTM,
    CharCNN: _TabledCharCNN,
}
