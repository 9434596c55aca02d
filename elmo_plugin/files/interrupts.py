"""
Signals that end a command, such as Ctrl-C, unless its output is in place. The error that they raise
may be lost: Python ignores it in what it calls when an object of h5py is deleted, and HDF5 may turn
it into another error. So it is raised again before a file is moved to its place, and at the end of
the command.
"""

import os
import signal
import sys
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

received: int | None = None
"""The signal that ends the command, once there is one."""
_is_output_there = False


def end_command(number: int, frame: FrameType | None = None) -> None:
    """
    The handler of the signals in a command: ends it as an error does, after which no temporary file
    is left, unless its output is in place.
    """
    global received
    if not _is_output_there:
        received = number
        # Python and h5py print an error that they ignore, but this one is raised again.
        sys.unraisablehook = lambda _: None
        sys.excepthook = lambda *_: None
        # Not a SystemExit, with which h5py ends Python at once if it deletes an object.
        raise KeyboardInterrupt


def end_if_interrupted() -> None:
    """End the command if a signal was received, whose error may have been lost."""
    if received is not None:
        end_command(received)


def replace_output(temporary: str | os.PathLike, out: str | os.PathLike) -> None:
    """Move the output to its place, after which a command has only to remove what it needed."""
    global _is_output_there
    end_if_interrupted()
    _is_output_there = True  # before, because a signal during the move is handled after it
    os.replace(temporary, out)
