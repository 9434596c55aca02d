"""A lock for each biLM, which threads that read it share."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import Any
from weakref import WeakKeyDictionary, WeakSet


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
