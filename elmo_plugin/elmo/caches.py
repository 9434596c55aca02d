"""
State shared by threads that compute vectors: a lock for each biLM, and a cache of word vectors.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from elmo_plugin.ops.frozen_state import FrozenState

CAPACITY = 2**15
"""Capacity in words: 64 MiB of vectors at the paper's P = 512."""

FEWEST = 8
"""
Minimum batch size of the encoder in words; smaller batches are repeated. Matrix products of fewer
rows round differently on CPUs, and a word's vector must not depend on which words were cached.
"""

BLOCK = 256
"""Batch size of the encoder in words if word vectors must be bit-identical in all batches."""


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
        self._n_waiting = 0  # waiting writers, which go before new readers
        self._owner: int | None = None  # the writer

    @contextmanager
    def shared(self) -> Iterator[None]:
        me = get_ident()
        with self._changed:
            self._changed.wait_for(
                lambda: me in self._users or (self._owner is None and not self._n_waiting)
            )
            self._users[me] += 1
        try:
            yield
        finally:
            self._leave(me)

    @contextmanager
    def alone(self) -> Iterator[None]:
        me = get_ident()
        with self._changed:
            self._n_waiting += 1
            try:
                self._changed.wait_for(lambda: not self._users.keys() - {me})
            finally:
                self._n_waiting -= 1
                self._changed.notify_all()
            self._users[me] += 1
            before, self._owner = self._owner, me
        try:
            yield
        finally:
            self._owner = before
            self._leave(me)

    def _leave(self, me: int) -> None:
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


def _open_all() -> None:
    for lock in _locks:
        lock.open()


os.register_at_fork(after_in_child=_open_all)


class WordVectorCache:
    """
    A cache of word vectors from a frozen token encoder. It is cleared when it is full or the
    encoder's state changes. A copy starts empty. Threads may share it.

    `capacity`: maximum number of words. `same_bits`: whether word vectors are bit-identical
    regardless of batch composition: the encoder then reads words in blocks of `BLOCK`, padded with
    repeated words. Otherwise the last bit may differ.
    """

    def __init__(self, capacity: int = CAPACITY, same_bits: bool = False) -> None:
        self.capacity = capacity
        self.same_bits = same_bits
        self._lock = SharedLock()
        self.clear()

    def clear(self) -> None:
        with self._lock.alone():
            self._state: FrozenState | None = None
            self._rows: dict[bytes, int] = {}
            self._vectors: Tensor | None = None

    def __reduce__(self) -> tuple[type, tuple[int, bool]]:
        return WordVectorCache, (self.capacity, self.same_bits)

    def __call__(self, encoder: nn.Module, words: Tensor, state: FrozenState | None) -> Tensor:
        """
        Word vectors, shape `(U, P)`. `encoder`: the token encoder, called only for words that are
        not cached, or for all words if its `state` is `None`. `words`: character ids, shape
        `(U, C)`, preferably distinct.
        """
        if state is None:  # nothing is cached
            return self._encode(encoder, words) if len(words) else encoder(words)
        # Cached vectors may be used outside inference mode.
        with self._lock.alone(), torch.inference_mode(False), torch.no_grad():
            resized = self._vectors is not None and len(self._vectors) != self.capacity
            if state != self._state or resized:
                self.clear()
                self._state = state
            return self._look_up(encoder, words)

    def _look_up(self, encoder: nn.Module, words: Tensor) -> Tensor:
        keys = [row.tobytes() for row in words.to("cpu", torch.int32).numpy()]
        new = {key: i for i, key in enumerate(keys) if key not in self._rows}
        if len(self._rows) + len(new) > self.capacity:
            self._rows = {}
            new = {key: i for i, key in enumerate(keys)}
        if len(new) > self.capacity:
            return self._encode(encoder, words)
        if new:
            vectors = self._encode(encoder, words[list(new.values())])
            if self._vectors is None:
                self._vectors = vectors.new_empty(self.capacity, vectors.size(1))
            rows = range(len(self._rows), len(self._rows) + len(new))
            self._vectors[rows.start : rows.stop] = vectors
            self._rows.update(zip(new, rows))
        if self._vectors is None:
            return encoder(words)
        # Without a dtype, an empty index (only empty sentences) would be float.
        found = [self._rows[key] for key in keys]
        return self._vectors[torch.tensor(found, dtype=torch.long, device=words.device)]

    def _encode(self, encoder: nn.Module, words: Tensor) -> Tensor:
        """The vectors of at least one word."""
        vectors = []
        for block in words.split(BLOCK if self.same_bits else len(words)):
            n_words = BLOCK if self.same_bits else max(FEWEST, len(block))
            filled = torch.arange(n_words, device=words.device) % len(block)
            vectors.append(encoder(block[filled])[: len(block)])
        return torch.cat(vectors)
