"""
Signals whose handlers raise an error, such as Ctrl-C. Where an error would be lost, the signal is
sent again a little later.
"""

import _thread
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


@contextmanager
def interrupts_kept() -> Iterator[Callable[[], None]]:
    """
    Let no signal be lost inside the context. Yields a function that handles those that wait to be
    sent again, to call before something that cannot be undone.
    """
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    waiting: set[int] = set()

    def handle(number: int, frame: FrameType | None) -> None:
        waiting.discard(number)
        if _loses_errors(frame):
            waiting.add(number)
            _thread.start_new_thread(send_again, (number,))  # `threading` takes locks
        else:
            handlers[number](number, frame)

    def send_again(number: int) -> None:
        time.sleep(SECONDS)
        if number in waiting:
            _thread.interrupt_main(signal.Signals(number))

    def handle_waiting() -> None:
        for number in list(waiting):
            handle(number, None)

    try:
        if threading.current_thread() is threading.main_thread():  # which handles all signals
            for sent in SIGNALS:
                if callable(handler := signal.getsignal(sent)):
                    handlers[sent] = handler
                    signal.signal(sent, handle)
        yield handle_waiting
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _loses_errors(frame: FrameType | None) -> bool:
    """Whether an error in a frame would be lost in it or in one of those that it returns to."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == "__del__" or module.startswith(LOSES):
            return True
        frame = frame.f_back
    return False
