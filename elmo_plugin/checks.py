"""
Checks of single values out of a config or a command line. Each raises a `ParameterError` of one
sentence that begins with `name`, which says whose value it is:

    check_count('data_loader of type "bilm": batch_size', batch_size)
"""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from allennlp.common.checks import ConfigurationError

MOST = 2**31 - 1
"""No count is higher, unless said otherwise: it fits into every integer that it may become."""
LARGEST = sys.float_info.max
WHOLE = (int, np.integer)
NUMBER = (int, np.integer, float, np.floating)
SHOWN = 60
"""Longer values are cut in messages."""


class ParameterError(ConfigurationError, ValueError):
    """
    A parameter has a value that it cannot have. To AllenNLP this is a fault of the configuration,
    and to a caller in Python a `ValueError`.
    """


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """A whole number from `least` to `most`; `true` is none, nor is 3.0."""
    if isinstance(value, bool) or not isinstance(value, WHOLE) or not least <= value <= most:
        fail(name, f"a whole number from {least} to {most}", value)


def check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """A finite number within the bounds that are given; `true` is none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, NUMBER)
        or not -LARGEST <= value <= LARGEST  # nor is NaN, or an integer that no float holds
        or (least is not None and value < least)
        or (above is not None and value <= above)
        or (most is not None and value > most)
        or (below is not None and value >= below)
    ):
        bounds = {"of at least": least, "above": above, "of at most": most, "below": below}
        words = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
        fail(name, " ".join(["a finite number", " and ".join(words)]).strip(), value)


def check_flag(name: str, value: Any) -> None:
    """`true` or `false`; neither 1 nor "true"."""
    if not isinstance(value, bool):
        fail(name, "true or false", value)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """One of `choices`, and of its type: `true` is not 1."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        fail(name, f"one of {', '.join(map(shown, choices))}", value)


def check_path(name: str, value: Any) -> None:
    """A path or a URL: a string that is neither empty nor has a NUL."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        fail(name, "a path", value)


def check_text(name: str, value: Any) -> None:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        fail(name, "a string that is not empty", value)


def fail(name: str, expected: str, found: Any) -> NoReturn:
    """Raises the error that all checks here raise."""
    raise ParameterError(f"{name}: expected {expected}, found {shown(found)}")


def shown(value: Any) -> str:
    """A value as messages show it: as JSON has it where that differs, and cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
