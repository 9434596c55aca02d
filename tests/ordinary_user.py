"""Runs tests without root's rights, because root ignores permissions."""

import os
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

NOBODY = 65534


def as_ordinary_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function, or the message of its error, in a process without root's
    rights. Paths under pytest's `tmp_path` are closed to it; `tempfile.TemporaryDirectory` can be
    opened with `chmod`."""
    context = get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_call, args=(queue, function, *arguments))
    process.start()
    result = queue.get(timeout=60)
    process.join()
    return result


def _call(queue: Any, function: Callable[..., Any], *arguments: Any) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        queue.put(function(*arguments))
    except Exception as error:
        queue.put(str(error))
