"""A lock for each biLM, which threads that read it share."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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


os.register_at_fork(after_in_child=_open_all)
