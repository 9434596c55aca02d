"""
Signals whose handlers raise an error, such as Ctrl-C. Where an error would be lost, the signal is
sent again a little later. Once the output of a command is in place, they no longer end it.
"""

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SECONDS = 0.002
"""The time until a signal is sent again."""
LOSES = ("h5py", "elmo_plugin.files.hdf5", "weakref", "_weakrefset")
"""
Modules that lose errors: HDF5, and Python in what it calls when an object is deleted. h5py deletes
many, and HDF5 calls the files of `hdf5`.
"""


_waiting: set[int] = set()
"""The signals that wait to be sent again."""
_raised: set[int] = set()
"""The signals whose handlers have raised an error, which a library may lose or replace."""
_is_output_there = False


def end_command(number: int, frame: FrameType | None) -> None:
    """
    The handler of the signals in a command: ends it as an error does, after which no temporary file
    is left, unless its output is in place.
    """
    if not _is_output_there:
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def replace_output(temporary: str | os.PathLike, out: str | os.PathLike) -> None:
    """Move the output to its place, after which a command has only to remove what it needed."""
    global _is_output_there
    handle_interrupts()
    _is_output_there = True  # before, because a signal during the move is handled after it
    os.replace(temporary, out)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Let no signal be lost inside the context, at whose end those that were are handled."""
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        _waiting.discard(number)
        if _loses_errors(frame):
            _waiting.add(number)
            _thread.start_new_thread(_send_again, (number,))  # `threading` takes locks
        else:
            _raised.add(number)
            handlers[number](number, frame)
            _raised.discard(number)

    try:
        if _is_main_thread():
            for sent in SIGNALS:
                if callable(handler := signal.getsignal(sent)):
                    handlers[sent] = handler
                    signal.signal(sent, handle)
        yield
        handle_interrupts()
    except Exception:
        handle_interrupts()
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
            _raised.discard(number)


def handle_interrupts() -> None:
    """Handle the signals that wait or were lost. Call it before what cannot be undone."""
    if _is_main_thread():
        for number in _waiting | _raised:
            if callable(handler := signal.getsignal(number)):
                handler(number, None)


def _is_main_thread() -> bool:
    """Whether this is the thread in which Python handles all signals."""
    return threading.current_thread() is threading.main_thread()


def _send_again(number: int) -> None:
    time.sleep(SECONDS)
    if number in _waiting:
        _thread.interrupt_main(signal.Signals(number))


def _loses_errors(frame: FrameType | None) -> bool:
    """Whether an error in a frame would be lost in it or in one of those that it returns to."""
    while frame is not None:
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        # A bar of tqdm that was not made whole prints an error when it is deleted.
        is_half_made = name == "__init__" and module.startswith("tqdm")
        if name == "__del__" or is_half_made or module.startswith(LOSES):
            return True
        frame = frame.f_back
    return False
