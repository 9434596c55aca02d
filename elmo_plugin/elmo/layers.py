"""The layers of a biLM, which may be frozen or trained, and whose weights may change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import chain
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor

from elmo_plugin.checks import (
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
    fail,
    shown,
)
from elmo_plugin.elmo.export import exported_layers
from elmo_plugin.elmo.frozen import (
    CAPACITY,
    FrozenBiLM,
    State,
    aliased,
    lock_of,
    renew_memory,
    use_one_thread_in_children,
)
from elmo_plugin.elmo.layer_cache import DTYPES, LayerCache
from elmo_plugin.formats.allennlp_elmo import compute_warm_state, take_allennlp_weights
from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.bilm import INITIAL_STATES, PRECISIONS, SentenceLayers
from elmo_plugin.modules.initial_state import CarriesState
from elmo_plugin.ops.linear import on_device
from elmo_plugin.text.advice import advised, current
from elmo_plugin.text.characters import sentence_characters
from elmo_plugin.text.forms import rows_of
from elmo_plugin.text.raw_text import FIRST_WORDS, check_language
from elmo_plugin.text.sentence import Row
from elmo_plugin.torch_modules import name_hook, owners_of

MAX_TOKENS = 2048
"""64 sentences of ordinary length, enough rows for a CPU's matrix multiplications."""

DEVICE_TOKENS = 16_384
"""The same on other devices, where a step of more rows takes hardly longer."""

F = TypeVar("F", bound=Callable)


def from_snapshot(method: F) -> F:
    """Decorator of a method of `BiLMLayers`, in which `self` is the `snapshot` at its start."""

    @wraps(method)
    def of_snapshot(self: BiLMLayers, *args: Any, **kwargs: Any) -> Any:
        with self.snapshot() as now:
            return method(now, *args, **kwargs)

    return cast(F, of_snapshot)


def check_bilm(bilm: Any) -> None:
    """Require a `BiLM`."""
    if not isinstance(bilm, BiLM):
        fail("bilm", "a BiLM; from_pretrained, from_archive and from_files load one", bilm)


class BiLMLayers(CarriesState):
    """
    Computes the layers of a biLM for sentences: those of a frozen biLM with a `FrozenBiLM`, and
    those of any other by its modules, with whatever autograd and hooks make of them. See `Elmo` for
    the parameters. Public methods take a `snapshot` at their start, and compute with it.
    """

    _frozen: FrozenBiLM | None = None
    """The last snapshot of the biLM. `None` if it has no `State`, as it is trained or unknown."""
    _is_snapshot = False

    known_words: Sequence[str] = ()
    """The `FIRST_WORDS` most frequent words that the biLM was trained on, if they are known."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        requires_grad: bool | None = None,
        initial_state: str,
        precision: str | None = None,
        cache_dir: str | os.PathLike | None = None,
        cache_dtype: str = "float32",
        cache_size_gb: float = 10.0,
    ) -> None:
        super().__init__()
        check_choice("initial_state", initial_state, INITIAL_STATES)
        check_choice("cache_dtype", cache_dtype, DTYPES)
        check_number("cache_size_gb", cache_size_gb, above=0)
        self.initial_state = initial_state
        self.has_weights = True
        self.needs_warm_state = False
        self.layer_cache: LayerCache | None = None
        with lock_of(bilm):
            settings = _settings(bilm, requires_grad=requires_grad, precision=precision)
            if cache_dir is not None:
                if settings["requires_grad"]:
                    raise InputError("cache_dir: expected a frozen biLM, found requires_grad true")
                if initial_state == "carry":
                    raise InputError(
                        "cache_dir: expected initial_state zero or warm, found carry, under which "
                        "a sentence's layers depend on those before it"
                    )
                self.layer_cache = LayerCache(cache_dir, cache_dtype, cache_size_gb)
            if not owners_of(bilm):  # only after all checks
                bilm.set_precision(settings["precision"])
                bilm.requires_grad_(settings["requires_grad"])
            self.bilm = bilm.eval()
        # In this order.
        name_hook(self.register_load_state_dict_pre_hook(take_allennlp_weights))
        name_hook(self.register_load_state_dict_pre_hook(_before_loading))
        name_hook(self.register_load_state_dict_post_hook(compute_warm_state))
        use_one_thread_in_children()  # weights are loaded and read in several threads

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frozen": None}  # packed weights cannot be copied

    @property
    def n_layers(self) -> int:
        """L + 1, the number of layers including the word layer."""
        return self.bilm.bilstm.n_layers + 1

    @property
    def output_dim(self) -> int:
        """The size of a vector, 2P."""
        return self.bilm.output_dim

    @contextmanager
    def snapshot(self, same_bits: bool = False) -> Iterator[Self]:
        """
        This module with its weights and settings of now, which other threads may change meanwhile:
        a copy that shares its memory. With `carry`, one thread has it at a time, because each
        batch continues from the state after the one before, and two that are read at once would
        begin with the same. `same_bits`: see `WordVectorCache`.
        """
        if self._is_snapshot or torch.compiler.is_exporting():
            yield self
            return
        with lock_of(self.carried) if self.initial_state == "carry" else nullcontext():
            with lock_of(self.bilm):
                state = State.of(self.bilm)
                made_for = state, self.initial_state, same_bits
                if self._frozen is None or self._frozen.made_for != made_for:
                    self._frozen = None  # before more memory is allocated
                    if state is not None:
                        self._frozen = FrozenBiLM(self.bilm, state, *made_for[1:])
                frozen = self._frozen
                now = aliased(self, {self.bilm: frozen.bilm if frozen else self.bilm})
            now._is_snapshot = True
            yield now

    @from_snapshot
    def layers(self, tokens: Tensor, boundaries: bool = True) -> tuple[list[Tensor], Tensor]:
        """
        The L + 1 layers of a batch of sentences, each of shape `(B, T, 2P)`, and the mask, shape
        `(B, T)`. `tokens`: character ids, shape `(B, T, C)`, for the biLM's C, zeros at padding.
        With `boundaries`, T + 2 replaces T, because the vectors of the two boundaries are the first
        and the last of a sentence; without them, a frozen biLM that carries no state computes two
        steps fewer.

        Raises a `RuntimeError` if the biLM has no weights, and in a replica of
        `torch.nn.DataParallel`, which has no parameters of its own and would share the caches; and
        an `InputError` as `BiLM.sentence_lengths`, in `torch.jit.trace`, and as `exported_layers`
        in `torch.export`.
        """
        bilm = self.bilm
        if getattr(self, "_is_replica", False):
            raise RuntimeError(
                "expected torch.nn.parallel.DistributedDataParallel, found torch.nn.DataParallel"
            )
        if torch.jit.is_tracing():
            raise InputError(
                "expected torch.export, as by Elmo.export, found torch.jit.trace, whose program "
                "would be of one batch size and one length"
            )
        self.check_weights()
        if torch.compiler.is_exporting():
            layers, mask = exported_layers(bilm, self.initial_state, tokens)
            return (layers, mask) if boundaries else without_boundaries(layers, mask)
        tokens = tokens.cpu()
        lengths = bilm.sentence_lengths(tokens)  # (B,)
        time = torch.arange(tokens.size(1) + 2, device="cpu")
        real = on_device(time < lengths[:, None] + 2, bilm.device)  # (B, T + 2)
        mask = real if boundaries else real[:, 2:].contiguous()
        carries = self.initial_state == "carry"
        if not tokens.size(0) or (not mask.numel() and not carries):
            empty = bilm.warm_state.output.new_zeros(*mask.shape, bilm.output_dim)
            return [empty] * self.n_layers, mask
        frozen = self._frozen
        if frozen is not None and not carries:
            if self.layer_cache is None:
                return frozen.layers(tokens, lengths, boundaries), mask
            return self.layer_cache.layers(frozen, tokens, lengths, boundaries), mask
        initial = bilm.initial_state(self.initial_state, len(tokens), self.carried.state)
        layers, after = (frozen or bilm).sentences(tokens, lengths, initial)
        if carries:
            self.carried.put(after)
        return (layers, real) if boundaries else without_boundaries(layers, real)

    @advised()
    def characters(
        self, sentences: str | Sequence[str] | Sequence[Sequence[str]], *, raw: bool = False
    ) -> Tensor:
        """
        The character ids of sentences, shape `(B, T, C)`, zeros at padding; for a single sentence,
        B is 1. `sentences`, `raw`: see `Elmo.embed`, except that B is the number of sentences, also
        where a raw text has several. Raises an `InputError` as `Elmo.embed`.
        """
        tokens = self._characters(self.checked_tokens(rows_of(sentences, raw)[0]))
        return tokens.to(self.bilm.device)

    def checked_tokens(self, rows: list[Row]) -> list[list[str]]:
        """
        The tokens of each sentence of rows. The advice of the call says which of their words are
        read as others, and whether raw text is for a model of another language than English.
        """
        sentences = [x.tokens for row in rows for x in row]
        is_raw = any(x.spans is not None for row in rows for x in row)
        advice, knows = current(), self._knows
        words = list(chain.from_iterable(sentences))
        advice.of_cut_words(words, len(words), self.bilm.token_encoder.word_limit)
        if is_raw:
            table, first = self.bilm.word_table, self.known_words
            check_language(first if table is None else table.words.first(FIRST_WORDS))
        if not advice.has_characters:
            advice.of_characters(sentences, knows or self.known_words.__contains__)
        if knows is not None:
            advice.of_unknown_words(sentences, knows, is_raw)
        return sentences

    @property
    def _knows(self) -> Callable[[str], bool] | None:
        """Whether the model has a word, if it has a vocabulary."""
        table = self.bilm.word_table
        return None if table is None else table.words.__contains__

    def _characters(self, sentences: list[list[str]]) -> Tensor:
        """The character ids of checked sentences, as `characters`, but on the CPU."""
        return sentence_characters(sentences, self.bilm.max_characters_per_token)

    def max_tokens(self, given: int | None) -> int:
        """The most tokens of a batch: those that are `given`, or a default for the device."""
        if given is None:
            return MAX_TOKENS if self.bilm.device.type == "cpu" else DEVICE_TOKENS
        return check_count("max_tokens", given)

    def read(
        self, rows: list[Row], max_tokens: int | None, boundaries: bool = True
    ) -> Iterator[tuple[list[int], list[Tensor], Tensor]]:
        """
        Read the sentences of rows in batches of at most `max_tokens`: the indices of the sentences
        of a batch among all, their `layers` and the mask. With `carry` all rows are one batch,
        because vectors depend on the one before, and a single row is read sentence by sentence.
        Raises an `InputError` then if one of several rows has several sentences.
        """
        most = self.max_tokens(max_tokens)
        sentences = self.checked_tokens(rows)
        batches: Iterable[list[int]] = batches_by_length(list(map(len, sentences)), most)
        if self.initial_state == "carry":
            batches = _carried_batches(rows)
        for places in batches:
            tokens = self._characters([sentences[b] for b in places])
            yield places, *self.layers(tokens, boundaries)

    @from_snapshot
    def continued(self, sentences: list[list[str]], state: LSTMState) -> SentenceLayers:
        """
        A batch of sentences with their boundaries, read from the `state` of each, and the state
        after them. Raises a `RuntimeError` if the biLM has no weights.
        """
        self.check_weights()
        tokens = self._characters(sentences)
        reader = self._frozen or self.bilm
        return reader.sentences(tokens, self.bilm.sentence_lengths(tokens), state)

    @torch.no_grad()
    @advised()
    def warm_up(self, sentences: Any, batch_size: int = 16, *, raw: bool = False) -> None:
        """
        Set the state at the start of a sentence under `warm` from a text, for a biLM without one of
        its training: for each layer and direction, the mean of the states after each sentence,
        which are those before the next one. The sentences are read once, in `batch_size` rows from
        zeros as with `carry`. A blank string or line is no sentence. `sentences`, `raw`: several,
        as in `Elmo.embed`.

        Raises an `InputError` if there are none or only one, and as `Elmo.embed`.
        """
        batch_size = check_count("batch_size", batch_size)
        rows, is_single = rows_of(sentences, raw)
        texts = list(filter(None, self.checked_tokens(rows)))  # without blank lines
        if len(texts) <= is_single:  # one or none
            other = "one, whose tokens these are" if is_single else "none"
            raise InputError(f"expected several sentences, as a list of lists, found {other}")
        state = self.bilm.bilstm.zero_state(batch_size)
        # On the CPU, because Apple's GPUs have no float64.
        totals = [torch.zeros(x[:, :, :1].shape, dtype=torch.float64) for x in state]
        with self.snapshot() as now:
            for start in range(0, len(texts), batch_size):
                batch = texts[start : start + batch_size]
                after = now.continued(batch, state.take(len(batch))).state
                state = state.put(after)
                for total, x in zip(totals, after):
                    total += x.sum(dim=2, keepdim=True).cpu()
        with lock_of(self.bilm):
            renew_memory(self.bilm.warm_state.buffers())
            self.bilm.warm_state.set(LSTMState(*(total / len(texts) for total in totals)))

    def check_weights(self) -> None:
        """Raise a `RuntimeError` if the biLM has no weights."""
        if not self.has_weights:
            raise RuntimeError(
                "the biLM's weights were never loaded; call `load_state_dict` of the "
                f"`{type(self).__name__}`, not of its parts"
            )

    @from_snapshot
    def fingerprint(self) -> bytes:
        """
        A digest of the weights and the settings that a sentence's layers depend on. Raises an
        `InputError` if the biLM is trained or contains parts whose effect is unknown.
        """
        if (frozen := self._frozen) is None:
            raise InputError(
                "expected a frozen biLM without hooks and parametrizations, with parameters that "
                "were not made in inference mode and have no gradient, found another, which has no "
                "digest"
            )
        return frozen.digest

    @from_snapshot
    def cache_words(self, words: Collection[str]) -> None:
        """
        Cache the vectors of all words of a text in large batches, which is faster, if the biLM is
        frozen and the cache is large enough.
        """
        if 0 < len(words) <= CAPACITY and (frozen := self._frozen) is not None:
            frozen.cache_words(self._characters([sorted(words)])[0])

    def clear_caches(self) -> None:
        """
        Clear carried states and in-memory caches, but not the files in `cache_dir`. Call this after
        modifying weights through another tensor, such as `.data`, which caches cannot detect.
        """
        with lock_of(self.carried), lock_of(self.bilm):
            self.carried.state = self._frozen = None

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        with lock_of(self.carried), lock_of(self.bilm):
            self._frozen = None  # it would stay on the old device
            return super()._apply(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        with lock_of(self.carried), lock_of(self.bilm):
            return super().load_state_dict(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.bilm.eval()  # its dropout is only for language model training
        return self


def _settings(bilm: BiLM, **asked: Any) -> dict[str, Any]:
    """
    The `requires_grad` and `precision` of a biLM for a new owner, which asks for some or, by
    `None`, for those that it has; without owners it is frozen. Raises an `InputError` if its owners
    have others.
    """
    owners = owners_of(bilm)
    is_trained = bool(owners) and any(x.requires_grad for x in bilm.parameters())
    shared = {"requires_grad": is_trained, "precision": bilm.permitted_precision}
    settings = shared | {name: value for name, value in asked.items() if value is not None}
    check_flag("requires_grad", settings["requires_grad"])
    check_choice("precision", settings["precision"], PRECISIONS)
    if owners and settings != shared:
        raise InputError(
            f"expected {_shown(shared)}, as the {type(owners[0]).__name__} that has the same biLM, "
            f"found {_shown(settings)}; a copy.deepcopy of the biLM can have settings of its own"
        )
    if settings["requires_grad"] and settings["precision"] == "int8":
        raise InputError('precision "int8": expected a frozen biLM, found requires_grad true')
    return settings


def _shown(settings: dict[str, Any]) -> str:
    return " and ".join(f"{name} {shown(value)}" for name, value in settings.items())


def _before_loading(layers: BiLMLayers, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """
    Pre-hook of `load_state_dict`, which itself raises an error if some of the weights are missing.
    """
    for owner in owners_of(layers.bilm):
        owner.__dict__.pop("_frozen", None)  # which would keep the memory of the old weights
    tensors = chain(layers.named_parameters(), layers.named_buffers())
    renew_memory(x for name, x in tensors if prefix + name in state_dict)
    layers.has_weights |= all(
        (x := state_dict.get(f"{prefix}bilm.{name}")) is not None and x.shape == tensor.shape
        for name, tensor in layers.bilm.state_dict().items()
    )


def _carried_batches(rows: list[Row]) -> list[list[int]]:
    """The batches with `carry`, as indices of sentences; see `read`."""
    if len(rows) == 1:
        return [[place] for place in range(len(rows[0]))]
    for number, row in enumerate(rows):
        if len(row) > 1:
            raise InputError(
                "initial_state carry: expected one sentence in each of several rows, because a row "
                f"continues that of the batch before, found {len(row)} in row {number}; a row "
                "that is read alone, as by stream or with --batch-size 1, may have several"
            )
    return [list(range(sum(map(len, rows))))] if any(rows) else []  # none of a blank line


def without_boundaries(layers: list[Tensor], real: Tensor) -> tuple[list[Tensor], Tensor]:
    """
    Layers or mixes, each of shape `(B, T, 2P)`, and their mask, shape `(B, T)`, out of those with
    the boundaries, which have T + 2 instead of T.
    """
    mask = real[:, 2:].contiguous()
    # The slice keeps the final boundary of shorter sentences, which the mask sets to zero.
    return [x[:, 1:-1] * mask[:, :, None] for x in layers], mask


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """
    Divide sentences into batches of similar lengths, for little padding. A batch has at most
    `max_tokens` tokens, including padding and boundaries, to bound the memory. A longer sentence is
    a batch by itself.

    `lengths`: sentence lengths in tokens. Yields for each batch the indices of its sentences in
    `lengths`, starting with the longest.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        # The first sentence of a batch is the longest, and the others are padded to its length.
        width = lengths[batch[0] if batch else place] + 2
        if batch and (len(batch) + 1) * width > max_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
