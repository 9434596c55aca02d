from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.export import exported_layers
from elmo_plugin.elmo.frozen import FrozenBiLM
from elmo_plugin.elmo.frozen_state import frozen_state
from elmo_plugin.elmo.layer_cache import LayerCache
from elmo_plugin.elmo.word_cache import CAPACITY
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.lstm_state import CarriedState


class BiLMLayers:
    """
    Computes the layers of a biLM for sentences: those of a frozen biLM with a `FrozenBiLM`, and
    those of any other by its modules, with whatever autograd and hooks make of them. See `Elmo` for
    the parameters.
    """

    def __init__(
        self,
        bilm: BiLM,
        initial_state: str,
        cache_dir: str | os.PathLike | None,
        cache_dtype: str,
        cache_size_gb: float,
    ) -> None:
        self.initial_state = initial_state
        self.has_weights = True
        self.carried = CarriedState()
        self.n_cached_words = CAPACITY
        self.same_bits = False  # see `WordVectorCache`
        self.layer_cache: LayerCache | None = None
        if cache_dir is not None:
            if any(parameter.requires_grad for parameter in bilm.parameters()):
                raise InputError("cache_dir: expected a frozen biLM, found requires_grad true")
            if initial_state == "carry":
                raise InputError(
                    "cache_dir: expected initial_state zero or warm, found carry, under which a "
                    "sentence's layers depend on those before it"
                )
            self.layer_cache = LayerCache(cache_dir, cache_dtype, cache_size_gb)
        self._frozen: FrozenBiLM | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frozen": None}  # packed weights cannot be copied

    def clear(self) -> None:
        """Clear the carried state and caches, except the files in `cache_dir`."""
        self.carried.state = self._frozen = None

    def frozen(self, bilm: BiLM) -> FrozenBiLM | None:
        """
        The snapshot of the biLM as it is now, or `None` if it has no `frozen_state`, because it is
        trained or contains parts whose effect is unknown.
        """
        state, words = frozen_state(bilm), (self.n_cached_words, self.same_bits)
        known = self._frozen  # another thread may replace it
        if state is None or known is None or known.state != state or known.words != words:
            self._frozen = known = None  # before more memory is allocated
            if state is not None:
                self._frozen = known = FrozenBiLM(bilm, state, words)
        return known

    def __call__(
        self, bilm: BiLM, tokens: Tensor, boundaries: bool = True
    ) -> tuple[list[Tensor], Tensor]:
        """
        The L + 1 layers of a batch of sentences, each of shape `(B, T, 2P)`, and the mask, shape
        `(B, T)`. `tokens`: character ids, shape `(B, T, C)`, zeros at padding. With `boundaries`, T
        + 2 replaces T, because the vectors of the two boundaries are the first and the last of a
        sentence; without them, a frozen biLM that carries no state computes two steps fewer.

        Raises a `RuntimeError` if the biLM has no weights; a `ValueError` as `BiLM.fit` and
        `BiLM.sentence_lengths`; and an `InputError` in
        `torch.jit.trace`, and as `exported_layers` in `torch.export`.
        """
        if torch.jit.is_tracing():
            raise InputError(
                "expected torch.export, as by Elmo.export, found torch.jit.trace, whose program "
                "would be of one batch size and one length"
            )
        if not self.has_weights:
            raise RuntimeError("the biLM's weights were never loaded; call `load_state_dict` first")
        tokens = bilm.fit(tokens)
        if torch.compiler.is_exporting():
            return exported_layers(bilm, self.initial_state, tokens, boundaries)
        lengths = bilm.sentence_lengths(tokens)  # (B,)
        more = 2 if boundaries else 0
        time = torch.arange(tokens.size(1) + more, device=tokens.device)
        mask = time < lengths[:, None] + more  # (B, T)
        carries = self.initial_state == "carry"
        if not tokens.size(0) or (not mask.numel() and not carries):
            empty = bilm.warm_state.output.new_zeros(*mask.shape, bilm.output_dim)
            return [empty] * (bilm.bilstm.n_layers + 1), mask
        frozen = self.frozen(bilm)
        if frozen is None or carries:
            initial = bilm.initial_state(self.initial_state, len(tokens), self.carried.state)
            read = (frozen or bilm).sentences(tokens, lengths, initial)
            if carries:
                self.carried.put(read.state)
            if not boundaries:
                return [without_boundaries(layer, mask) for layer in read.layers], mask
            return read.layers, mask
        batch = frozen, tokens, lengths, boundaries
        if self.layer_cache is None:
            return self._compute(*batch), mask
        return self._look_up(self.layer_cache, bilm, *batch, mask), mask

    def _compute(
        self, frozen: FrozenBiLM, tokens: Tensor, lengths: Tensor, boundaries: bool
    ) -> list[Tensor]:
        return frozen.layers(tokens, lengths, self.initial_state, boundaries)

    @torch.no_grad()
    def _look_up(
        self,
        cache: LayerCache,
        bilm: BiLM,
        frozen: FrozenBiLM,
        tokens: Tensor,
        lengths: Tensor,
        boundaries: bool,
        mask: Tensor,
    ) -> list[Tensor]:
        """
        The layers from the cache on disk. The sentences that it lacks are computed as one smaller
        batch, and stored.
        """
        sizes = mask.sum(dim=1).tolist()
        model = frozen.digest(self.initial_state) + (b"" if boundaries else b"without boundaries")
        keys = cache.keys(model, tokens, lengths.tolist())
        shape = bilm.bilstm.n_layers + 1, *mask.shape, bilm.output_dim
        layers = np.zeros(shape, dtype=np.float32)
        sentences = [layers[:, row, :size] for row, size in enumerate(sizes)]
        missing = cache.get(keys, sentences)
        if missing:
            if len(missing) < len(keys):
                lengths = lengths[missing]
                tokens = tokens[missing, : int(lengths.max())]
            computed = self._compute(frozen, tokens, lengths, boundaries)
            for k, row in enumerate(missing):
                for layer, target in zip(computed, sentences[row], strict=True):
                    target[:] = layer[k, : sizes[row]].float().cpu().numpy()
            # Another thread may have changed the weights since the digest was computed.
            if frozen_state(bilm) == frozen.state:
                cache.put([keys[row] for row in missing], [sentences[row] for row in missing])
        return list(torch.from_numpy(layers).to(tokens.device, bilm.warm_state.output.dtype))


def without_boundaries(x: Tensor, mask: Tensor) -> Tensor:
    """
    Remove the boundaries from `x`, shape `(B, T + 2, 2P)`. `mask`: true at the sentences' tokens,
    shape `(B, T)`.
    """
    # The slice keeps the final boundary of shorter sentences, which the mask sets to zero.
    return x[:, 1:-1] * mask[:, :, None]
