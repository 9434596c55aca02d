"""
Checks of single values from a config or a command line. Each raises an `InputError` of one
sentence, which begins with `name`, the name of the parameter:

    check_count('data_loader of type "bilm": batch_size', batch_size)

`needed` checks that an optional package is installed. Checks elsewhere `fail` if the message ends
with the value that was found, and raise an `InputError` themselves if it says more of it, such as
that there is none, or what to do.
"""

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
import torch

MOST = 2**31 - 1
"""Default upper limit of counts, which fits into all integer types."""
LARGEST = sys.float_info.max
WHOLE = (int, np.integer)
NUMBER = (int, np.integer, float, np.floating)
SHOWN = 60
"""The length at which values in messages are cut."""


class InputError(ValueError):
    """
    A value or a file from the user is invalid. The message is one sentence that names it, what was
    expected and what was found.
    """


def check_count(name: str, value: Any, least: int = 1, most: int = MOST) -> int:
    """
    Return a whole number from `least` to `most` as an integer, also a float such as 5.0, which is
    what R passes for 5. Rejects booleans and other floats.
    """
    if not is_whole(value) or not least <= int(value) <= most:
        fail(name, f"a whole number from {least} to {most}", value)
    return int(value)


def optional_count(name: str, value: Any, least: int = 1, most: int = MOST) -> int | None:
    """As `check_count`, except that `None` is no number, and returned."""
    return None if value is None else check_count(name, value, least, most)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer or a float that is one, and no boolean."""
    value = _plain(value)
    is_number = isinstance(value, NUMBER) and not isinstance(value, bool)
    return is_number and abs(value) <= LARGEST and value % 1 == 0


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, because `LARGEST` overflows in NumPy's smaller types."""
    return value.item() if isinstance(value, np.number) else value


def check_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> None:
    """Require a finite number within the given bounds. Rejects booleans."""
    value = _plain(value)
    if (
        isinstance(value, bool)
        or not isinstance(value, NUMBER)
        or not -LARGEST <= value <= LARGEST  # also NaN, and integers too large for a float
        or (least is not None and value < least)
        or (above is not None and value <= above)
        or (most is not None and value > most)
    ):
        bounds = {"of at least": least, "above": above, "of at most": most}
        words = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
        fail(name, " ".join(["a finite number", " and ".join(words)]).strip(), value)


def check_flag(name: str, value: Any) -> None:
    """Require `true` or `false`. Rejects 1 and "true"."""
    if not isinstance(value, bool):
        fail(name, "true or false", value)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> Any:
    """Return the one of `choices` that a value is: 2.0 is 2, but `true` is not 1."""
    value = int(value) if is_whole(value) else value
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        fail(name, f"one of {', '.join(map(shown, choices))}", value)
    return value


def check_path(name: str, value: Any) -> None:
    """Require a path or a URL: a string or an `os.PathLike` that is not empty and has no NUL."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text:
        fail(name, "a path", value)


def check_text(name: str, value: Any) -> None:
    """Require a non-empty string."""
    if not isinstance(value, str) or not value:
        fail(name, "a string that is not empty", value)


def device_named(name: str, cuda_device: int) -> str:
    """A GPU by its number, or the CPU for -1. Raises an `InputError` if there is no such GPU."""
    n_gpus = torch.cuda.device_count()
    if not is_whole(cuda_device) or not -1 <= cuda_device < n_gpus:
        gpus = f" or a GPU from 0 to {n_gpus - 1}" if n_gpus else ", because PyTorch finds no GPU"
        fail(name, f"-1 for the CPU{gpus}", cuda_device)
    return "cpu" if cuda_device < 0 else f"cuda:{int(cuda_device)}"


def available_device(name: str, device: Any) -> torch.device:
    """A device of PyTorch. Raises an `InputError` if this machine does not have it."""
    try:
        return torch.empty(0, device=device).device
    except (AssertionError, NotImplementedError, RuntimeError, TypeError):
        fail(name, "a device of PyTorch that this machine has, such as cpu or cuda:0", device)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Let the errors of invalid input and of missing files begin with `name` and a colon."""
    try:
        yield
    except (InputError, FileNotFoundError) as error:
        raise type(error)(f"{name}: {error}") from error


def whole_span(name: str, unit: str, start: Any, end: Any, size: int) -> tuple[int, int]:
    """
    A span of `size` characters or tokens as integers, also of whole floats, which a column of
    pandas with a missing value has. The span may be empty. Raises an `InputError` if it is not
    inside.
    """
    if not is_whole(start) or not is_whole(end) or not 0 <= start <= end <= size:
        fail(name, f"whole numbers of {unit}, 0 <= start <= end <= {size}", (start, end))
    return int(start), int(end)


def named_as_given(
    names: Iterable[str | os.PathLike], paths: Iterable[str]
) -> AbstractContextManager[None]:
    """
    Let errors about the local `paths` of files begin with the `names` that the user gave, where
    these are others, such as URLs.
    """
    others = [str(name) for name, path in zip(names, paths) if str(name) != path]
    return named(" and ".join(others)) if others else nullcontext()


def fail(name: str, expected: str, found: Any) -> NoReturn:
    """Raise the `InputError` that ends with the value that was found, as text by `shown`."""
    raise InputError(f"{name}: expected {expected}, found {shown(found)}")


def needed(module: str, asked_by: str = "", pip: str = "") -> Any:
    """
    Import a module of a package that is optional. `asked_by`: the beginning of the `InputError`
    that says what to install. `pip`: what to install, if more than this package.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0].replace("_", "-")
        package = {"sklearn": "scikit-learn"}.get(name, name)
        raise InputError(
            f"{asked_by}expected the package {package}, found none; pip install {pip or package}"
        ) from error


def shown(value: Any) -> str:
    """A value as text for messages: `None` and booleans as in JSON, and long values cut."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # Python does not convert integers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
