from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, check_choice, check_flag
from elmo_plugin.elmo.layer_cache import LayerCache
from elmo_plugin.elmo.shared_lock import SharedLock, lock_of
from elmo_plugin.elmo.word_cache import WordVectorCache
from elmo_plugin.files.digest import new_digest
from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.bilm import PRECISIONS, SentenceLayers
from elmo_plugin.modules.initial_state import INITIAL_STATES, carry_on, initial_state
from elmo_plugin.ops.frozen_state import FrozenCache, FrozenState, frozen_state
from elmo_plugin.options import options_of
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.version import VERSION


class BiLMLayers(nn.Module):
    """
    Computes the layers of a biLM for sentences. While the biLM is frozen, they are computed without
    dropout, whatever mode the biLM is in, and with caches, which are used only while the biLM has
    the state that they were made from; see `frozen_state`. Several threads may read sentences while
    another moves, loads or converts the weights.

    # Parameters

    bilm : `BiLM`
        The biLM. It is modified in place: its `requires_grad`, mode and precision are set.
    requires_grad : `bool`
        Fine-tune the biLM with the task. A frozen biLM runs without autograd and caches the vectors
        of words.
    initial_state : `str`
        The LSTM state at the start of a sentence. `"carry"` is the state at the end of the same
        row of the batch before, as in bilm-tf and AllenNLP, so that vectors depend on earlier
        batches. `"zero"` is zero. `"warm"` is the mean state at the starts of sentences in
        training.
    precision : `str`
        The precision of the biLM's matrix products: `"fp32"`, or `"bf16"`, which is faster on CPUs
        with native bfloat16. The vectors are fp32 in both cases.
    cache_dir : `str | os.PathLike | None`
        A folder for a `LayerCache`, which several biLMs may share. The numbers of a batch are the
        same to the bit as without a cache. The layers of a sentence that were computed in another
        batch are the same up to rounding (1e-5), because batches of other shapes round differently.
    cache_dtype : `str`
        The type of the numbers in the cache, `"float32"` or `"float16"`.
    cache_size_gb : `float`
        The highest size of the cache, in GiB.

    # Raises

    `ValueError`
        If a parameter has another value, or if there is a cache although the biLM is fine-tuned or
        `initial_state` is `"carry"`.
    """

    def __init__(
        self,
        bilm: BiLM,
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
        self.options = options_of(bilm)
        self.initial_state = initial_state
        self.word_vectors = WordVectorCache()
        self.layer_cache: LayerCache | None = None
        if cache_dir is not None:
            if requires_grad:
                raise InputError("cache_dir: expected a frozen biLM, found requires_grad true")
            if initial_state == "carry":
                raise InputError(
                    "cache_dir: expected initial_state zero or warm, found carry, under which a "
                    "sentence's layers depend on those before it"
                )
            self.layer_cache = LayerCache(cache_dir, cache_dtype, cache_size_gb)
        self._digest = FrozenCache()
        self._sentence_start = FrozenCache()
        self.has_weights = True
        self.carried_state: LSTMState | None = None
        self.register_load_state_dict_pre_hook(_note_weights)

    @property
    def _lock(self) -> SharedLock:
        """What changes the weights or the caches is alone."""
        return lock_of(self.bilm)

    @property
    def requires_grad(self) -> bool:
        """Whether the biLM or a part of it is fine-tuned with the task."""
        return any(parameter.requires_grad for parameter in self.bilm.parameters())

    @property
    def n_layers(self) -> int:
        """L + 1, the number of layers including the words."""
        return self.bilm.bilstm.n_layers + 1

    @property
    def output_dim(self) -> int:
        """The size of a vector, 2P."""
        return self.bilm.output_dim

    @property
    def max_characters_per_token(self) -> int:
        if not self.options.token_encoder.reads_characters:
            raise InputError(
                "expected a biLM that reads characters, found one with word embeddings"
            )
        return self.bilm.id_shape[0]

    def characters(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The character ids of sentences, of shape `(B, T, C)`, zeros at padding."""
        n_characters = self.max_characters_per_token
        lengths = [len(sentence) for sentence in sentences]
        tokens = torch.zeros(len(sentences), max(lengths), n_characters, dtype=torch.long)
        for row, sentence in zip(tokens, sentences):
            ids = words_to_characters(list(sentence), n_characters)
            row[: len(sentence)] = torch.from_numpy(ids)
        return tokens.to(self.bilm.boundaries.device)

    def read_words(self, words: Collection[str]) -> None:
        """Caches the vectors of all words of a text, if the cache can hold them and the biLM is
        frozen. Fewer and larger batches of words take less time."""
        if not words or len(words) > self.word_vectors.capacity:
            return
        with self._lock.shared():
            if (state := frozen_state(self.bilm)) is not None:
                characters = self.characters([sorted(words)])[0]
                self.word_vectors(self.bilm.token_encoder, characters, state)

    def clear_caches(self) -> None:
        """
        Clears carried states and caches: word vectors, packed weights, the state at a sentence's
        start and the fingerprint, not the files in `cache_dir`. It is needed after a weight's
        memory was changed through another tensor, such as its `.data`, which no cache notices.
        """
        with self._lock.alone():
            self.carried_state = None
            self._forget()
            self.bilm.clear_packed_weights()

    def _forget(self) -> None:
        """Frees what was made of a state that is gone."""
        self.word_vectors.clear()
        self._digest.clear()
        self._sentence_start.clear()

    def _apply(self, *args: Any, **kwargs: Any) -> BiLMLayers:
        with self._lock.alone():
            self.clear_caches()  # which would stay on the old device
            return super()._apply(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock.alone():
            return super().load_state_dict(*args, **kwargs)

    def train(self, mode: bool = True) -> BiLMLayers:
        super().train(mode)
        self.bilm.eval()  # its dropout is for training it as a language model
        return self

    def layers(self, tokens: Tensor, boundaries: bool = True) -> tuple[list[Tensor], Tensor]:
        """
        The layers of a batch of sentences.

        # Parameters

        tokens : `Tensor`
            Character ids of shape `(B, T, C)` or word ids of shape `(B, T)`, zeros at padding.
        boundaries : `bool`
            Add the vectors of the two boundaries, as the first and the last of a sentence. A frozen
            biLM that carries no state computes two steps fewer without them.

        # Returns

        `tuple[list[Tensor], Tensor]`
            The L + 1 layers, each of shape `(B, T, 2P)`, and the mask, of shape `(B, T)`. With
            `boundaries` T is T + 2.
        """
        if not self.has_weights:
            raise RuntimeError("the biLM's weights were never loaded; call `load_state_dict` first")
        if tokens.dim() == 3 and tokens.size(-1) != self.max_characters_per_token:
            raise ValueError(
                f"expected {self.max_characters_per_token} characters a token, the biLM's "
                f"max_characters_per_token, found {tokens.size(-1)}; the token indexer must "
                'have the same, and the type "elmo"'
            )
        lengths = self.bilm.sentence_lengths(tokens)  # (B,)
        more = 2 if boundaries else 0
        time = torch.arange(tokens.size(1) + more, device=tokens.device)
        mask = time < lengths[:, None] + more  # (B, T)
        if not len(tokens) or (not mask.numel() and self.initial_state != "carry"):
            empty = self.bilm.warm_state.output.new_zeros(*mask.shape, self.output_dim)
            return [empty] * self.n_layers, mask
        with self._lock.shared():
            state = frozen_state(self.bilm)
            if state is None and self.requires_grad:
                self._forget()
                read = self.bilm.sentences(tokens, self._initial_state(len(tokens)))
                return self._carry_on(read, boundaries), mask
            if self.layer_cache is None or state is None or self.initial_state == "carry":
                return self._compute(tokens, boundaries, state), mask
            sizes = [length + more for length in lengths.tolist()]
            return self._look_up(self.layer_cache, tokens, sizes, boundaries, state), mask

    @torch.no_grad()
    def _look_up(
        self,
        cache: LayerCache,
        tokens: Tensor,
        sizes: list[int],
        boundaries: bool,
        state: FrozenState,
    ) -> list[Tensor]:
        """
        As `_compute`, but takes the layers that are cached from there, and computes and caches the
        other sentences as one smaller batch. `sizes`: lengths of the sentences in the layers.
        """
        more = 2 if boundaries else 0
        model = self._digest_of(state) + (b"" if boundaries else b"without boundaries")
        keys = cache.keys(model, tokens, [size - more for size in sizes])
        shape = self.n_layers, len(tokens), tokens.size(1) + more, self.output_dim
        layers = np.zeros(shape, dtype=np.float32)
        sentences = [layers[:, row, :size] for row, size in enumerate(sizes)]
        missing = cache.get(keys, sentences)
        if missing:
            if len(missing) < len(keys):
                tokens = tokens[missing, : max(sizes[row] for row in missing) - more]
            computed = self._compute(tokens, boundaries, state)
            for k, row in enumerate(missing):
                for layer, target in zip(computed, sentences[row], strict=True):
                    target[:] = layer[k, : sizes[row]].float().cpu().numpy()
            # Another thread may have changed the weights since they were digested.
            if frozen_state(self.bilm) == state:
                cache.put([keys[row] for row in missing], [sentences[row] for row in missing])
        return list(torch.from_numpy(layers).to(tokens.device))

    @torch.no_grad()
    def _compute(self, tokens: Tensor, boundaries: bool, state: FrozenState | None) -> list[Tensor]:
        """As `layers`, for at least one sentence of a frozen biLM in this state."""
        if state is None:
            self._forget()
        encode = partial(self.word_vectors, self.bilm.token_encoder, state=state)
        if not boundaries and self.initial_state != "carry":
            # It is the same for all sentences, and may be used outside of inference mode.
            with torch.inference_mode(False), torch.no_grad():
                start = self._sentence_start.find(
                    state and (state, self.initial_state),
                    lambda: self.bilm.after_boundary(self._initial_state(1)),
                )
            expanded = start.expand(len(tokens))
            return self.bilm.inner_words(tokens, expanded, encode, dropout=False).layers
        initial = self._initial_state(len(tokens))
        return self._carry_on(
            self.bilm.sentences(tokens, initial, encode, dropout=False), boundaries
        )

    def _carry_on(self, read: SentenceLayers, boundaries: bool) -> list[Tensor]:
        if self.initial_state == "carry":
            self.carried_state = carry_on(self.carried_state, read.state)
        if boundaries:
            return read.layers
        return [without_boundaries(h, read.mask) for h in read.layers]

    def _initial_state(self, n_rows: int) -> LSTMState:
        return initial_state(self.bilm, self.initial_state, n_rows, self.carried_state)

    def resume_state(self) -> dict[str, Tensor]:
        """The carried LSTM states, which an exact resume of a task's training needs."""
        return {} if self.carried_state is None else dict(self.carried_state._asdict())

    def fingerprint(self) -> bytes:
        """
        A digest of the weights and the settings that a sentence's layers depend on.

        # Raises

        `ValueError`
            If there is none, because the biLM is trained or has parts whose effect is not known.
        """
        with self._lock.shared():
            if (state := frozen_state(self.bilm)) is None:
                raise ValueError(
                    "expected a frozen biLM without hooks and parametrizations, with parameters "
                    "that were not made in inference mode and have no gradient, found another, of "
                    "which there is no digest"
                )
            return self._digest_of(state)

    def _digest_of(self, state: FrozenState) -> bytes:
        def compute() -> bytes:
            facts = VERSION, self.initial_state, state.settings
            digest = new_digest(repr(facts).encode())
            for tensor in state.tensors:
                numbers = tensor.detach().cpu().contiguous().view(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            return digest.digest()

        return self._digest.find((state, self.initial_state), compute)


def without_boundaries(x: Tensor, mask: Tensor) -> Tensor:
    """
    `x`, of shape `(B, T + 2, 2P)`, without the boundaries of sentences, whose mask with boundaries
    is `mask`, of shape `(B, T + 2)`.
    """
    # The slice leaves the final boundary of shorter sentences, which the mask sets to zero.
    return x[:, 1:-1] * mask[:, 2:, None]


def _note_weights(reader: BiLMLayers, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """
    Before `load_state_dict`, which itself raises an error if some of the weights are missing. Takes
    what `resume_state` gave out of a checkpoint's state dictionary.
    """
    reader.clear_caches()
    carried = state_dict.pop(prefix + "resume_state", None)
    if carried:
        device = reader.bilm.boundaries.device
        reader.carried_state = LSTMState(**{key: x.to(device) for key, x in carried.items()})
    if all(f"{prefix}bilm.{name}" in state_dict for name, _ in reader.bilm.named_parameters()):
        reader.has_weights = True
