"""Lets a test fail that would not end."""

import signal
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

SECONDS = 120


def ends(test: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a test that must end, however long it takes."""

    def fail(*_: Any) -> NoReturn:
        raise AssertionError("it does not end")

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        before = signal.signal(signal.SIGALRM, fail)
        signal.alarm(SECONDS)
        try:
            test(*args, **kwargs)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    return run
