"""
A biLM that is not trained: a snapshot with everything that can be computed once, and the state that
says when another one has to be made.

A snapshot is that of the biLM while the biLM's `State` is equal to the one it was made for. A call
takes one at its start, and may finish with it while another thread loads weights. A biLM that
contains anything whose effect cannot be compared has no state and no snapshot. Some
changes cannot be detected (docs/caches_and_processes.md), such as writing to the same memory
through another tensor, `parameter.data.mul_(2)`. Clear the caches after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from hashlib import blake2b
from itertools import chain
from threading import RLock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from elmo_plugin.files.digest import new_digest
from elmo_plugin.files.fork import at_fork
from elmo_plugin.modules import BiLM, CharCNN, LSTMState, ProjectedLSTM
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.modules.token_encoder import filled
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.char_conv import frozen_convolve
from elmo_plugin.ops.linear import Linear, batched_matmul, on_device, pack_weights, product_dtype
from elmo_plugin.ops.lstm import LSTMWeights, pack_lstm_weights, quantize_lstm_weights
from elmo_plugin.ops.private_torch import are_plain
from elmo_plugin.ops.streams import Shared, shared
from elmo_plugin.version import VERSION

M = TypeVar("M", bound=nn.Module)

CAPACITY = 2**15
"""Capacity of the cache in words: 64 MiB of vectors at the paper's P = 512."""

WORDS_AT_ONCE = 256
"""Batch size of the encoder in words if word vectors must be bit-identical in all batches."""

_NOT_SETTINGS = frozenset(nn.Module().__dict__)
"""Also `training`: a frozen module is computed as in evaluation."""
_AUTOCAST = ("cpu", "cuda", "mps", "xpu")
_PLAIN = (bool, int, float, str, type(None), torch.dtype)


# ---- Threads and forked processes ----


_locks: WeakKeyDictionary[Any, AbstractContextManager] = WeakKeyDictionary()


def lock_of(shared: object) -> AbstractContextManager:
    """
    The lock of an object, which the thread that holds it may enter again. A copy of the object has
    another one, and so has the object itself in a forked child, where the threads do not exist
    that hold its parent's locks.
    """
    return _locks.get(shared) or _locks.setdefault(shared, RLock())


at_fork(after_in_child=_locks.clear)


@cache  # registered once in a process
def use_one_thread_in_children() -> None:
    """
    From now on, let the children that this process forks compute in one thread. A child has none of
    the threads in which its parent has computed, and would wait for them forever.
    """
    at_fork(after_in_child=partial(torch.set_num_threads, 1))


# ---- The state ----


@dataclass
class State:
    """
    The state of a frozen module. If two states that exist at the same time are equal, and so does
    the memory of the tensors of the first, the module computed the same outputs at both times.

    `settings`: everything but the tensors that the numbers depend on. `versions`: facts that change
    with the tensors, and how often autograd has used the module, because training can change it
    without raising a version. `tensors`: parameters and buffers for which `is_frozen` is true, so
    that Python cannot reuse the identity of one.
    """

    settings: list[Any]
    versions: list[Any]
    tensors: list[Tensor] = field(compare=False)

    @classmethod
    def of(cls, module: nn.Module) -> State | None:
        """
        The state of a module with all its submodules, and PyTorch's precision settings. `None` if
        it cannot be compared with a later state, because a submodule is not plain, has a tensor
        that is not frozen, or has an attribute that is not a plain value. A submodule's attribute
        `n_trained` counts how often autograd has used it.
        """
        parts = list(module.named_modules(remove_duplicate=False))
        if not are_plain(part for _, part in parts):
            return None
        state = cls(_precision_settings(), [], [])
        for name, part in parts:
            state.settings += (name, type(part).__name__)
            for key, value in part.__dict__.items():
                if key == "n_trained":
                    state.versions.append(value)
                elif key not in _NOT_SETTINGS:
                    if not _is_setting(value):
                        return None
                    copied = tuple(value) if isinstance(value, list) else value
                    state.settings.append((key, copied))
            # `functional_call` replaces parameters by tensors for one call.
            if not all(isinstance(x, nn.Parameter | None) for x in part._parameters.values()):
                return None
            own = chain(part._parameters.values(), part._buffers.values())
            state.tensors += (x for x in own if x is not None)
        if not all(map(is_frozen, state.tensors)):
            return None
        # `p.data = x` changes neither the identity nor the version of p, but its address or, if x
        # is a view of the same memory, its type, shape or strides.
        state.versions += (
            (id(x), x._version, x.data_ptr(), x.dtype, x.device, x.shape, x.stride())
            for x in state.tensors
        )
        return state


def _precision_settings() -> list[Any]:
    return [
        *(torch.is_autocast_enabled(x) and torch.get_autocast_dtype(x) for x in _AUTOCAST),
        torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    ]


def _is_setting(value: Any) -> bool:
    """Whether an attribute can be compared: a plain value, a list of them, or frozen options."""
    if type(value) in (list, tuple):
        return all(type(item) in _PLAIN for item in value)
    return type(value) in _PLAIN or is_dataclass(value)


def is_frozen(x: Tensor) -> bool:
    """
    Whether a parameter or buffer is a plain tensor that is not trained and whose version counts
    changes. Tensors from inference mode have no version, and `fused` optimizers do not raise it.
    """
    return (
        type(x) in (nn.Parameter, Tensor)
        and x.layout is torch.strided
        and not x.requires_grad
        and x.grad is None
        and not x.is_inference()
    )


def bytes_of(x: Tensor) -> memoryview:
    """The numbers of a tensor of any type."""
    return x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def weights_digest(module: nn.Module) -> blake2b:
    """A digest of all tensors of a module with their names, which can be updated."""
    digest = new_digest()
    for name, x in module.state_dict().items():
        digest.update(name.encode())
        digest.update(bytes_of(x))
    return digest


# ---- The snapshot ----


def aliased(module: M, copies: dict[nn.Module, nn.Module] | None = None) -> M:
    """
    A copy of a module that shares its memory, through other tensors that gradients pass. Loading
    and moving give the module other memory, so that the copy stays as it is. Parts with hooks,
    which may be about the module itself, are not copied. `copies`: those of parts that are already
    there, which may occur twice.
    """
    copies = {} if copies is None else copies
    twin = copies[module] = object.__new__(type(module))
    twin.__dict__ |= module.__dict__
    for kind in ("_parameters", "_buffers"):
        own = module.__dict__[kind]
        twin.__dict__[kind] = {name: x if x is None else _alias(x) for name, x in own.items()}
    twin._modules = dict(module._modules)
    for name, part in module._modules.items():
        if part is not None and (part in copies or are_plain([part])):
            twin._modules[name] = copies[part] if part in copies else aliased(part, copies)
    return twin


def _alias(x: Tensor) -> Tensor:
    return x.view_as(x) if x.requires_grad else x.detach()


def renew_memory(tensors: Iterable[Tensor]) -> None:
    """Move tensors to other memory before they are written to, so that aliases stay as they are."""
    for x in tensors:
        with torch.inference_mode(x.is_inference()):  # each stays of its kind
            x.data = x.data.clone()


class FrozenBiLM:
    """
    A snapshot of a `BiLM` whose `State` is `state`. It has no dropout and no gradient. Threads may
    share it.

    `initial_state`: see `Elmo`. `same_bits`: see `WordVectorCache`.
    """

    def __init__(self, bilm: BiLM, state: State, initial_state: str, same_bits: bool) -> None:
        self.bilm = aliased(bilm).eval()
        self.made_for = state, initial_state, same_bits
        self._versions = self._versions_now()
        # The settings have the precision that is permitted, and not that of this device.
        self._facts = VERSION, initial_state, bilm.precision, tuple(state.settings)
        self._packed: BiLM | None = None
        self._digest = b""

    def _versions_now(self) -> list[int]:
        return [x._version for x in chain(self.bilm.parameters(), self.bilm.buffers())]

    def is_unwritten(self) -> bool:
        """Whether nobody has written to the memory that it shares, as loading does not."""
        return self._versions_now() == self._versions

    @property
    def packed(self) -> BiLM:
        """
        A copy of the biLM in which the classes of `_PACKED` take the place of those that they are
        derived from: the equations are the same, with weights that are packed once. It is made when
        a sentence is first read and not found on disk, and the caller's stream may read it.
        """
        with lock_of(self):
            if self._packed is None:
                _, initial_state, same_bits = self.made_for
                # It may be used outside inference mode.
                with torch.inference_mode(False), torch.no_grad():
                    bilm = aliased(self.bilm)
                    for part in bilm.modules():
                        if packed_class := _PACKED.get(type(part)):
                            part.__class__ = packed_class
                            cast(Any, part).pack()
                    start = bilm.initial_state(initial_state, 1)
                    self._starts = {True: start, False: bilm.after_boundary(start)}
                    packed = (vars(part).get("_packed") for part in bilm.modules())
                    weights = bilm.parameters(), bilm.buffers()
                    self._shared = shared(packed, self._starts.values(), weights)
                bilm.token_encoder = WordVectorCache(bilm.token_encoder, same_bits)
                self._packed = bilm
            if self._shared:
                self._shared.wait()
            return self._packed

    @property
    def digest(self) -> bytes:
        """A digest of the weights and settings that a sentence's layers depend on."""
        with lock_of(self):
            if not self._digest:
                digest = weights_digest(self.bilm)
                digest.update(repr(self._facts).encode())
                self._digest = digest.digest()
            return self._digest

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


class WordVectorCache(nn.Module):
    """
    A frozen token encoder with a cache of its word vectors, which is cleared when it is full.
    Threads may share it.

    `encoder`: maps character ids of shape `(U, C)` to vectors of shape `(U, P)`. `same_bits`:
    whether word vectors are bit-identical regardless of batch composition: the encoder then reads
    `WORDS_AT_ONCE`, padded with repeated words. Otherwise the last bit may differ.
    """

    def __init__(self, encoder: nn.Module, same_bits: bool = False) -> None:
        super().__init__()
        self.encoder: Any = encoder
        self.capacity = CAPACITY
        self.same_bits = same_bits
        self._rows: dict[bytes, int] = {}
        self._vectors: Tensor | None = None
        self._shared: Shared | None = None

    @property
    def boundaries(self) -> Tensor:
        return self.encoder.boundaries

    def forward(self, words: Tensor) -> Tensor:
        """
        Word vectors, shape `(U, P)`. Only words that are not cached are encoded. `words`: character
        ids, shape `(U, C)`, preferably distinct.
        """
        # Cached vectors may be used outside inference mode.
        with lock_of(self), torch.inference_mode(False), torch.no_grad():
            if self._shared:
                self._shared.wait()
            try:
                return self._look_up(words)
            finally:
                if self._shared:
                    self._shared.record()  # rows may be written once all have read

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
                self._shared = shared(self._vectors)
            rows = range(len(self._rows), len(self._rows) + len(new))
            self._vectors[rows.start : rows.stop] = vectors
            self._rows.update(zip(new, rows))
        if self._vectors is None:
            return self.encoder(words)
        # Without a dtype, an empty index (only empty sentences) would be float.
        rows_of_words = [self._rows[key] for key in keys]
        index = torch.tensor(rows_of_words, dtype=torch.long, device="cpu")
        return self._vectors[on_device(index, self._vectors.device)]

    def _encode(self, words: Tensor) -> Tensor:
        """The vectors of at least one word."""
        vectors = []
        for block in words.split(WORDS_AT_ONCE if self.same_bits else len(words)):
            batch = filled(block, WORDS_AT_ONCE if self.same_bits else None)
            vectors.append(self.encoder(batch)[: len(block)])
        return torch.cat(vectors)


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


_PACKED: dict[type, type] = {
    Linear: _PackedLinear,
    ProjectedLSTM: _PackedLSTM,
    CharCNN: _TabledCharCNN,
}
