"""
A biLM that is not trained: a snapshot with everything that can be computed once, the state that
says when it becomes invalid, and the lock with which threads share it.

A snapshot is valid while the biLM's `FrozenState` is equal to the one before the computation. A
biLM that contains anything whose effect cannot be compared has no state and no snapshot. Some
changes cannot be detected (docs/speed.md), such as writing to the same memory through another
tensor, `parameter.data.mul_(2)`. Clear the caches after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from hashlib import blake2b
from threading import Condition, get_ident
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from elmo_plugin.files.digest import new_digest
from elmo_plugin.files.fork import at_fork
from elmo_plugin.modules import BiLM, CharCNN, LSTMState, ProjectedLSTM
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.modules.token_encoder import filled
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.char_conv import frozen_convolve
from elmo_plugin.ops.linear import Linear, batched_matmul, pack_weights, product_dtype
from elmo_plugin.ops.lstm import LSTMWeights, pack_lstm_weights, quantize_lstm_weights
from elmo_plugin.ops.private_torch import are_plain
from elmo_plugin.version import VERSION

CAPACITY = 2**15
"""Capacity of the cache in words: 64 MiB of vectors at the paper's P = 512."""

WORDS_AT_ONCE = 256
"""Batch size of the encoder in words if word vectors must be bit-identical in all batches."""

_NOT_SETTINGS = frozenset(nn.Module().__dict__)
"""Also `training`: a frozen module is computed as in evaluation."""
_AUTOCAST = ("cpu", "cuda", "mps", "xpu")
_PLAIN = (bool, int, float, str, type(None), torch.dtype)


# ---- The lock ----


class SharedLock:
    """
    A readers-writer lock. Several threads may read at the same time; a writer waits for them and
    then has exclusive access. It is reentrant for both. It is unlocked in a forked child, where the
    threads that held it do not exist, and in a copy.
    """

    def __init__(self) -> None:
        self.open()
        _locks.add(self)

    def open(self) -> None:
        self._changed = Condition()
        self._users: Counter[int] = Counter()  # how often each thread has entered
        self._n_writers = 0  # inside or waiting; they go before new readers

    def shared(self) -> AbstractContextManager[None]:
        return self._enter(lambda me: me in self._users or not self._n_writers)

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._n_writers += 1
        try:
            with self._enter(lambda me: not self._users.keys() - {me}):
                yield
        finally:
            with self._changed:
                self._n_writers = max(0, self._n_writers - 1)  # 0 in a forked child
                self._changed.notify_all()

    @contextmanager
    def _enter(self, may_enter: Callable[[int], bool]) -> Iterator[None]:
        me = get_ident()
        with self._changed:
            self._changed.wait_for(lambda: may_enter(me))
            self._users[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._users[me] -= 1
                if self._users[me] <= 0:
                    del self._users[me]
                self._changed.notify_all()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return SharedLock, ()


_locks: WeakSet[SharedLock] = WeakSet()
_lock_of: WeakKeyDictionary[Any, SharedLock] = WeakKeyDictionary()


def lock_of(shared: object) -> SharedLock:
    """The lock of a shared object."""
    return _lock_of.get(shared) or _lock_of.setdefault(shared, SharedLock())


def made_once(make: Callable[[Any], Any]) -> property:
    """
    Decorator of a property that the first thread computes, holding the `lock` of its object. The
    lock of `functools.cached_property`, which Python 3.11 has, stays closed in a forked child.
    """

    def get(owner: Any) -> Any:
        with owner.lock.alone():
            if make.__name__ not in owner.__dict__:
                owner.__dict__[make.__name__] = make(owner)
            return owner.__dict__[make.__name__]

    return property(get)


def _open_all() -> None:
    for lock in _locks:
        lock.open()


at_fork(after_in_child=_open_all)


@cache  # registered once in a process
def use_one_thread_in_children() -> None:
    """
    From now on, let the children that this process forks compute in one thread. A child has none of
    the threads in which its parent has computed, and would wait for them forever.
    """
    at_fork(after_in_child=partial(torch.set_num_threads, 1))


# ---- The state ----


@dataclass
class FrozenState:
    """
    The state of a frozen module. If two states that exist at the same time are equal, the module
    computed the same outputs at both times. A state holds a reference to every tensor and to its
    memory, so that Python cannot reuse a tensor's identity, nor PyTorch its address.

    `tensors`: parameters and buffers for which `is_frozen` is true. `settings`: everything else
    that the numbers depend on. `n_trained`: how often autograd has used the module, because
    training can change it without raising a version. `versions`: facts that change with the
    tensors.
    """

    tensors: list[Tensor] = field(compare=False)
    settings: tuple
    n_trained: int
    versions: list[tuple] = field(init=False)

    def __post_init__(self) -> None:
        self._aliases = [x.detach() for x in self.tensors]
        # `p.data = x` changes neither the identity nor the version of p, but its address or, if x
        # is a view of the same memory, its type, shape or strides.
        self.versions = [
            (id(x), x._version, x.data_ptr(), x.dtype, x.device, x.shape, x.stride())
            for x in self.tensors
        ]


def frozen_state(module: nn.Module) -> FrozenState | None:
    """
    The state of a module with all its submodules, and PyTorch's precision settings. `None` if it
    cannot be compared with a later state, because a submodule is not plain, has a tensor that is
    not frozen, or has an attribute that is not a plain value. A submodule's attribute `n_trained`
    counts how often autograd has used it.
    """
    tensors: list[Tensor] = []
    settings: list[Any] = [
        *(torch.is_autocast_enabled(x) and torch.get_autocast_dtype(x) for x in _AUTOCAST),
        torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    ]
    n_trained = 0
    parts = list(module.named_modules(remove_duplicate=False))
    if not are_plain(part for _, part in parts):
        return None
    for name, part in parts:
        own = {key: x for key, x in part.__dict__.items() if key not in _NOT_SETTINGS}
        n_trained += own.pop("n_trained", 0)
        # `functional_call` replaces parameters by tensors for one call.
        are_parameters = (isinstance(x, nn.Parameter | None) for x in part._parameters.values())
        if not all(map(_is_setting, own.values())) or not all(are_parameters):
            return None
        copies = (tuple(x) if isinstance(x, list) else x for x in own.values())
        settings += (name, type(part).__name__, *zip(own, copies))
        tensors += (x for x in part._parameters.values() if x is not None)
        tensors += (x for x in part._buffers.values() if x is not None)
    if not all(map(is_frozen, tensors)):
        return None
    return FrozenState(tensors, tuple(settings), n_trained)


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
            bilm = cast(BiLM, _packed_copy(self.bilm, {}))
            start = bilm.initial_state(initial_state, 1)
            self._starts = {True: start, False: bilm.after_boundary(start)}
        bilm.token_encoder = WordVectorCache(bilm.token_encoder, same_bits)
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
        digest = weights_digest(self.bilm)
        digest.update(repr(self._facts).encode())
        return digest.digest()


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
        self.encoder = encoder
        self.capacity = CAPACITY
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
        rows_of_words = [self._rows[key] for key in keys]
        return self._vectors[torch.tensor(rows_of_words, dtype=torch.long, device=words.device)]

    def _encode(self, words: Tensor) -> Tensor:
        """The vectors of at least one word."""
        vectors = []
        for block in words.split(WORDS_AT_ONCE if self.same_bits else len(words)):
            batch = filled(block, WORDS_AT_ONCE if self.same_bits else None)
            vectors.append(self.encoder(batch)[: len(block)])
        return torch.cat(vectors)


def _packed_copy(module: nn.Module, copies: dict[nn.Module, nn.Module]) -> nn.Module:
    """
    A copy in evaluation mode that shares the tensors of a plain module, in which the classes of
    `_PACKED` take the place of those that they are derived from: the equations are the same, with
    weights that are packed once. `copies`: those of the modules before, which may occur twice.
    """
    if module not in copies:
        twin = copies[module] = copy(module)
        twin.training = False
        twin._parameters, twin._buffers = dict(module._parameters), dict(module._buffers)
        twin._modules = {
            name: part and _packed_copy(part, copies) for name, part in module._modules.items()
        }
        if packed_class := _PACKED.get(type(module)):
            twin.__class__ = packed_class
            cast(Any, twin).pack()
    return copies[module]


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
