"""Standard streams that are closed (`>&-`), or whose reader ends first (`| head`)."""

import codecs
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from elmo_plugin.checks import InputError

SIGPIPE_CODE = 128 + 13
"""Exit code of a program that SIGPIPE ends, in a shell."""

ESCAPED = "elmo_plugin.escaped"
codecs.register_error(ESCAPED, lambda e: (json.dumps(e.object[e.start : e.end])[1:-1], e.end))  # type: ignore[attr-defined]


def occupy_closed_streams() -> None:
    """
    Open /dev/null instead of the standard streams that are closed. Otherwise the next file that is
    opened gets the number of such a stream, and then also what libraries print. `sys.stdin` and
    `sys.stdout` remain `None`.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def standard_input(argument: str) -> TextIO:
    """Standard input. If it is closed, the `InputError` names the argument that was `-`."""
    if sys.stdin is None:
        raise InputError(f"{argument}: -: expected a text on stdin, found it closed")
    return sys.stdin


def check_standard_output() -> None:
    """Raise an `InputError` if standard output, which a command needs for its result, is closed."""
    if sys.stdout is None:
        raise InputError("stdout: expected it to be open for the result, found it closed")


@contextmanager
def piped_output() -> Iterator[None]:
    """
    Flush standard output at the end, so that a failure is an error. If its reader ended first, exit
    without a message, as programs do that SIGPIPE ends.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        if sys.stdout is not None:  # flushed again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(SIGPIPE_CODE)


def printable(text: str) -> str:
    """Text with escapes of JSON, as in `caf\\u00e9`, for what standard output cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, ESCAPED).decode(encoding)


def print_text(text: str, end: str = "\n") -> None:
    """Print text as `printable`."""
    print(printable(text), end=end)
