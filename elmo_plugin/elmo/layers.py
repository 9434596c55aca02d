from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.checks import check_choice, check_flag
from elmo_plugin.data.characters import words_to_characters
from elmo_plugin.elmo.layer_cache import Fingerprint, LayerCache
from elmo_plugin.elmo.word_cache import WordVectorCache
from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.bilm import PRECISIONS
from elmo_plugin.modules.initial_state import INITIAL_STATES, carry_on, initial_state
from elmo_plugin.ops.numerics_key import numerics_key
from elmo_plugin.options import BiLMOptions
from elmo_plugin.version import VERSION


class BiLMLayers(nn.Module):
    """
    From sentences to the layers of a biLM, remembering what need not be computed twice.

    # Parameters

    bilm : `BiLM`
        Modified in place: its `requires_grad`, mode and precision are set.
    options : `BiLMOptions`
        Its sizes.
    requires_grad : `bool`
        Whether the biLM is trained along. A frozen one runs without autograd, and remembers the
        vectors of words.
    initial_state : `str`
        Where a sentence starts. `"carry"`: on from the row above in the batch before, as bilm-tf
        and AllenNLP have it, so that a vector depends on what came before; `"zero"`; or `"warm"`:
        the mean state that training found at the starts of sentences.
    precision : `str`
        Of the biLM's matrix products: `"fp32"`, or `"bf16"`, which is faster where the processor
        knows it. The vectors are fp32 either way.
    cache_dir : `str | os.PathLike | None`
        A folder that keeps the layers of each sentence that was read, for this biLM or any other,
        as `LayerCache` says; its weights, its settings and the sentence tell one entry from
        another. A batch has the same numbers, to the bit, as without a cache, when it is computed
        and when it is found again. A sentence that first came in another batch keeps the numbers
        that it had there, the same up to rounding (1e-5), as in batches of other shapes anyway.
    cache_dtype : `str`
        Of what the cache keeps: `"float32"` or `"float16"`.
    cache_size_gb : `float`
        The most that the folder may take, in GiB.

    # Raises

    `ValueError`
        For another initial state or precision; or a cache of layers that are not the sentence's
        own: those of a biLM that is trained, or that go on from what came before.
    """

    def __init__(
        self,
        bilm: BiLM,
        options: BiLMOptions,
        *,
        requires_grad: bool = False,
        initial_state: str = "warm",
        precision: str = "fp32",
        cache_dir: str | os.PathLike | None = None,
        cache_dtype: str = "float32",
        cache_size_gb: float = 10.0,
    ) -> None:
        super().__init__()
        check_flag("requires_grad", requires_grad)
        check_choice("initial_state", initial_state, INITIAL_STATES)
        check_choice("precision", precision, PRECISIONS)
        self.bilm = bilm.eval()
        self.bilm.requires_grad_(requires_grad)
        self.bilm.set_precision(precision)
        self.options = options
        self.initial_state = initial_state
        self.word_vectors = WordVectorCache()
        self.layer_cache: LayerCache | None = None
        if cache_dir is not None:
            if requires_grad:
                raise ValueError("cache_dir: expected a frozen biLM, found requires_grad true")
            if initial_state == "carry":
                raise ValueError(
                    "cache_dir: expected initial_state zero or warm, found carry, under which a "
                    "sentence's layers depend on those before it"
                )
            self.layer_cache = LayerCache(cache_dir, cache_dtype, cache_size_gb)
        self._fingerprint = Fingerprint()
        self.is_filled = True
        self.carried_state: LSTMState | None = None
        self.register_load_state_dict_pre_hook(_note_weights)

    @property
    def requires_grad(self) -> bool:
        """Whether the biLM is trained along, or a part of it."""
        return any(parameter.requires_grad for parameter in self.bilm.parameters())

    @property
    def n_layers(self) -> int:
        """L + 1, the number of layers with that of the words."""
        return self.options.lstm.n_layers + 1

    @property
    def output_dim(self) -> int:
        """2P, the size of a vector."""
        return self.bilm.output_dim

    @property
    def max_characters_per_token(self) -> int:
        char_cnn = self.options.char_cnn
        if char_cnn is None:
            raise ValueError(
                "expected a biLM that reads characters, found one whose words come from a table"
            )
        return char_cnn.max_characters_per_token

    def characters(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The character ids of a batch of sentences, shape `(B, T, C)`, zeros at padding."""
        n_characters = self.max_characters_per_token
        lengths = [len(sentence) for sentence in sentences]
        tokens = torch.zeros(len(sentences), max(lengths), n_characters, dtype=torch.long)
        for row, sentence in zip(tokens, sentences):
            ids = words_to_characters(list(sentence), n_characters)
            row[: len(sentence)] = torch.from_numpy(ids)
        return tokens.to(self.bilm.boundaries.device)

    def clear_caches(self) -> None:
        """
        Clears carried states and caches: word vectors, packed weights and the fingerprint, not the
        files in `cache_dir`. It is needed after weights were changed through their `.data`, which
        no cache notices.
        """
        self.carried_state = None
        self.word_vectors.clear()
        self.bilm.clear_packed_weights()
        self._fingerprint.clear()

    def _apply(self, *args: Any, **kwargs: Any) -> BiLMLayers:
        self.clear_caches()  # which would stay on the old device
        return super()._apply(*args, **kwargs)

    def train(self, mode: bool = True) -> BiLMLayers:
        super().train(mode)
        self.bilm.eval()  # the dropout of its own training is not part of its vectors
        return self

    def layers(self, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
        """
        # Parameters

        tokens : `Tensor`
            Shape `(B, T, C)`, character ids, or `(B, T)`, word ids; zeros at padding.

        # Returns

        `tuple[list[Tensor], Tensor]`
            h_0 .. h_L, each of shape `(B, T + 2, 2P)`, with both boundaries, and their mask.
        """
        if not self.is_filled:
            raise RuntimeError(
                "this biLM was built to be loaded from an archive, and its weights never came"
            )
        if tokens.dim() == 3 and tokens.size(-1) != self.max_characters_per_token:
            raise ValueError(
                f"expected {self.max_characters_per_token} characters a token, the biLM's "
                f"max_characters_per_token, found {tokens.size(-1)}; the token indexer must "
                "have the same"
            )
        lengths = self.bilm.sentence_lengths(tokens)  # (B,)
        time = torch.arange(tokens.size(1) + 2, device=tokens.device)
        mask = time < lengths[:, None] + 2  # (B, T + 2)
        if not len(tokens):
            empty = self.bilm.warm_state.output.new_zeros(*mask.shape, self.output_dim)
            return [empty] * self.n_layers, mask
        if self.layer_cache is None or self.requires_grad:
            return self._compute(tokens), mask
        return self._look_up(self.layer_cache, tokens, lengths.tolist()), mask

    @torch.no_grad()
    def _look_up(self, cache: LayerCache, tokens: Tensor, lengths: list[int]) -> list[Tensor]:
        """
        As `_compute`, but takes the layers that are cached from there, and computes and caches the
        other sentences as one smaller batch.
        """
        keys = cache.keys(self.fingerprint(), tokens, lengths)
        layers = torch.zeros(self.n_layers, len(tokens), tokens.size(1) + 2, self.output_dim)
        sentences = [layers[:, row, : n + 2] for row, n in enumerate(lengths)]
        missing = cache.get(keys, sentences)
        if missing:
            if len(missing) < len(keys):
                tokens = tokens[missing, : max(lengths[row] for row in missing)]
            computed = torch.stack(self._compute(tokens)).float().cpu()  # (L + 1, B', T' + 2, 2P)
            for k, row in enumerate(missing):
                sentences[row].copy_(computed[:, k, : lengths[row] + 2])
            cache.put([keys[row] for row in missing], [sentences[row] for row in missing])
        return list(layers.to(tokens.device))

    def _compute(self, tokens: Tensor) -> list[Tensor]:
        """Tokens of at least one sentence, and their layers; both as for `layers`."""
        frozen = not self.requires_grad
        encode = partial(self.word_vectors, self.bilm.token_encoder) if frozen else None
        state = initial_state(self.bilm, self.initial_state, len(tokens), self.carried_state)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            read = self.bilm.sentences(tokens, state, encode)
        if self.initial_state == "carry":
            self.carried_state = carry_on(self.carried_state, read.state)
        return read.layers

    def fingerprint(self) -> bytes:
        """A digest of the weights and the settings that a sentence's layers depend on."""
        facts = VERSION, self.options, self.initial_state, numerics_key(self.bilm)
        return self._fingerprint(self.bilm, facts)


def _note_weights(reader: BiLMLayers, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Weights have come: all of the biLM's, or else `load_state_dict` says which are missing."""
    reader.clear_caches()
    if all(f"{prefix}bilm.{name}" in state_dict for name, _ in reader.bilm.named_parameters()):
        reader.is_filled = True
