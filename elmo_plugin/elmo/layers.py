from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.caches import WordVectorCache, lock_of
from elmo_plugin.elmo.layer_cache import LayerCache
from elmo_plugin.files.digest import new_digest
from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.ops.frozen_state import FrozenCache, FrozenState, frozen_state
from elmo_plugin.ops.private_torch import not_compiled
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.version import VERSION


class BiLMLayers:
    """
    Computes the layers of a biLM for sentences. A frozen biLM runs without dropout, even in
    training mode, and with caches that are valid only while its state does not change; see
    `frozen_state`. Threads may read sentences while another thread moves, loads or converts the
    weights. See `Elmo` for the parameters.
    """

    def __init__(
        self,
        bilm: BiLM,
        initial_state: str,
        cache_dir: str | os.PathLike | None,
        cache_dtype: str,
        cache_size_gb: float,
    ) -> None:
        self.bilm = bilm
        self.initial_state = initial_state
        self.has_weights = True
        self.carried_state: LSTMState | None = None
        self.word_vectors = WordVectorCache()
        self.layer_cache: LayerCache | None = None
        if cache_dir is not None:
            if self.requires_grad:
                raise InputError("cache_dir: expected a frozen biLM, found requires_grad true")
            if initial_state == "carry":
                raise InputError(
                    "cache_dir: expected initial_state zero or warm, found carry, under which a "
                    "sentence's layers depend on those before it"
                )
            self.layer_cache = LayerCache(cache_dir, cache_dtype, cache_size_gb)
        self._digest = FrozenCache()
        self._sentence_start = FrozenCache()

    @property
    def requires_grad(self) -> bool:
        """Whether the biLM or a part of it is fine-tuned with the task."""
        return any(parameter.requires_grad for parameter in self.bilm.parameters())

    def read_words(self, words: Collection[str]) -> None:
        """
        Cache the vectors of all words of a text in large batches, which is faster, if the biLM is
        frozen and the cache is large enough.
        """
        if not words or len(words) > self.word_vectors.capacity:
            return
        with lock_of(self.bilm).shared():
            if (state := frozen_state(self.bilm)) is not None:
                characters = words_to_characters(sorted(words), self.bilm.max_characters_per_token)
                tokens = torch.from_numpy(characters).long().to(self.bilm.boundaries.device)
                self.word_vectors(self.bilm.token_encoder, tokens, state)

    def clear(self) -> None:
        """Clear carried states and caches, except the files in `cache_dir`."""
        with lock_of(self.bilm).alone():
            self.carried_state = None
            self._clear_caches()
            self.bilm.clear_packed_weights()

    def _clear_caches(self) -> None:
        """Free everything computed from an outdated state."""
        self.word_vectors.clear()
        self._digest.clear()
        self._sentence_start.clear()

    @not_compiled  # the kernels and caches are faster than what a compiler makes of them
    def __call__(self, tokens: Tensor, boundaries: bool = True) -> tuple[list[Tensor], Tensor]:
        """
        The L + 1 layers of a batch of sentences, each of shape `(B, T, 2P)`, and the mask, shape
        `(B, T)`. `tokens`: character ids, shape `(B, T, C)`, zeros at padding. With `boundaries`, T
        + 2 replaces T, because the vectors of the two boundaries are the first and the last of a
        sentence; without them, a frozen biLM that carries no state computes two steps fewer.

        Raises a `RuntimeError` if the biLM has no weights; a `ValueError` if it has another
        `max_characters_per_token`, and as `BiLM.sentence_lengths`; and an `InputError` in
        `torch.jit.trace`, and in `torch.export` if the state is carried or the precision is not
        fp32.
        """
        if torch.jit.is_tracing():
            raise InputError(
                "expected torch.export, as by Elmo.export, found torch.jit.trace, whose program "
                "would be of one batch size and one length"
            )
        if not self.has_weights:
            raise RuntimeError("the biLM's weights were never loaded; call `load_state_dict` first")
        if tokens.dim() != 3 or tokens.size(-1) != self.bilm.max_characters_per_token:
            raise ValueError(
                f"expected {self.bilm.max_characters_per_token} characters a token, the biLM's "
                f"max_characters_per_token, found {tokens.size(-1)}; the token indexer must "
                'have the same, and the type "elmo"'
            )
        lengths = self.bilm.sentence_lengths(tokens)  # (B,)
        more = 2 if boundaries else 0
        time = torch.arange(tokens.size(1) + more, device=tokens.device)
        mask = time < lengths[:, None] + more  # (B, T)
        if not tokens.size(0) or (not mask.numel() and self.initial_state != "carry"):
            empty = self.bilm.warm_state.output.new_zeros(*mask.shape, self.bilm.output_dim)
            return [empty] * (self.bilm.bilstm.n_layers + 1), mask
        with lock_of(self.bilm).shared():
            if torch.compiler.is_exporting():
                return self._export(tokens, lengths, mask, boundaries), mask
            state = frozen_state(self.bilm)
            if state is None and self.requires_grad:
                self._clear_caches()
                initial = self._initial_state(len(tokens))
                read = self.bilm.sentences(tokens, lengths, initial)
                return self._carry_on(read, mask, boundaries), mask
            if self.layer_cache is None or state is None or self.initial_state == "carry":
                return self._compute(tokens, lengths, mask, boundaries, state), mask
            return self._look_up(self.layer_cache, tokens, lengths, mask, boundaries, state), mask

    def _export(
        self, tokens: Tensor, lengths: Tensor, mask: Tensor, boundaries: bool
    ) -> list[Tensor]:
        """The layers while `torch.export` records a program."""
        if self.initial_state == "carry":
            raise InputError(
                "torch.export: expected initial_state zero or warm, found carry, a state that no "
                "program keeps from one batch to the next"
            )
        if self.bilm.precision != "fp32":
            raise InputError("torch.export: expected precision fp32, found bf16")
        initial = self._initial_state(tokens.size(0))
        read = self.bilm.sentences(tokens, lengths, initial, dropout=False)
        return self._carry_on(read, mask, boundaries)

    @torch.no_grad()
    def _look_up(
        self,
        cache: LayerCache,
        tokens: Tensor,
        lengths: Tensor,
        mask: Tensor,
        boundaries: bool,
        state: FrozenState,
    ) -> list[Tensor]:
        """
        Like `_compute`, but reads cached layers, and computes and caches the other sentences as one
        smaller batch.
        """
        sizes = mask.sum(dim=1).tolist()
        model = self._digest_of(state) + (b"" if boundaries else b"without boundaries")
        keys = cache.keys(model, tokens, lengths.tolist())
        shape = self.bilm.bilstm.n_layers + 1, *mask.shape, self.bilm.output_dim
        layers = np.zeros(shape, dtype=np.float32)
        sentences = [layers[:, row, :size] for row, size in enumerate(sizes)]
        missing = cache.get(keys, sentences)
        if missing:
            if len(missing) < len(keys):
                lengths = lengths[missing]
                tokens = tokens[missing, : int(lengths.max())]
                mask = mask[missing, : max(sizes[row] for row in missing)]
            computed = self._compute(tokens, lengths, mask, boundaries, state)
            for k, row in enumerate(missing):
                for layer, target in zip(computed, sentences[row], strict=True):
                    target[:] = layer[k, : sizes[row]].float().cpu().numpy()
            # Another thread may have changed the weights since the digest was computed.
            if frozen_state(self.bilm) == state:
                cache.put([keys[row] for row in missing], [sentences[row] for row in missing])
        return list(torch.from_numpy(layers).to(tokens.device, self.bilm.warm_state.output.dtype))

    @torch.no_grad()
    def _compute(
        self,
        tokens: Tensor,
        lengths: Tensor,
        mask: Tensor,
        boundaries: bool,
        state: FrozenState | None,
    ) -> list[Tensor]:
        """The layers of at least one sentence, computed by a frozen biLM in this state."""
        if state is None:
            self._clear_caches()
        read = partial(
            self.bilm.sentences,
            tokens,
            lengths,
            encode=partial(self.word_vectors, self.bilm.token_encoder, state=state),
            dropout=False,
        )
        if not boundaries and self.initial_state != "carry":
            # It is the same for all sentences, and may be used outside inference mode.
            with torch.inference_mode(False), torch.no_grad():
                start = self._sentence_start.find(
                    state and (state, self.initial_state),
                    lambda: self.bilm.after_boundary(self._initial_state(1)),
                )
            return read(start.expand(len(tokens)), boundaries=False).layers
        return self._carry_on(read(self._initial_state(len(tokens))), mask, boundaries)

    def _carry_on(self, read: SentenceLayers, mask: Tensor, boundaries: bool) -> list[Tensor]:
        """The layers that were read. With `carry`, stores the state for the next batch."""
        if self.initial_state == "carry":
            carried = self.carried_state
            self.carried_state = read.state if carried is None else carried.put(read.state)
        return read.layers if boundaries else [without_boundaries(h, mask) for h in read.layers]

    def _initial_state(self, batch_size: int) -> LSTMState:
        return self.bilm.initial_state(self.initial_state, batch_size, self.carried_state)

    def fingerprint(self) -> bytes:
        """
        A digest of the weights and the settings that a sentence's layers depend on. Raises a
        `ValueError` if the biLM is trained or contains parts whose effect is unknown.
        """
        with lock_of(self.bilm).shared():
            if (state := frozen_state(self.bilm)) is None:
                raise ValueError(
                    "expected a frozen biLM without hooks and parametrizations, with parameters "
                    "that were not made in inference mode and have no gradient, found another, "
                    "which has no digest"
                )
            return self._digest_of(state)

    def _digest_of(self, state: FrozenState) -> bytes:
        def compute() -> bytes:
            # The settings have the precision that is permitted, and not that of this device.
            facts = VERSION, self.initial_state, self.bilm.precision, state.settings
            digest = new_digest(repr(facts).encode())
            for tensor in state.tensors:
                numbers = tensor.detach().cpu().contiguous().view(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            return digest.digest()

        return self._digest.find((state, self.initial_state), compute)


def without_boundaries(x: Tensor, mask: Tensor) -> Tensor:
    """
    Remove the boundaries from `x`, shape `(B, T + 2, 2P)`. `mask`: true at the sentences' tokens,
    shape `(B, T)`.
    """
    # The slice keeps the final boundary of shorter sentences, which the mask sets to zero.
    return x[:, 1:-1] * mask[:, :, None]
