import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_plugin.checks import (
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_path,
    check_text,
    optional_count,
)
from tests.conftest import ROOT

PACKAGE = ROOT / "elmo_plugin"
NAN, INFINITY = float("nan"), float("inf")
NONSENSE = [None, "3", "", [], {}, [3], b"3", NAN, INFINITY, -INFINITY, object()]
share = partial(check_number, least=0, most=0.5)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_count, [1, 64, 64.0, 2**31 - 1], [0, -1, 1.5, 1e30, True, 2**31, 10**5000]),
        (partial(check_count, least=0, most=2), [0, 2, np.float32(1)], [-1, 3, np.float64("inf")]),
        (partial(optional_count, most=2), [None, 1, 2.0], [0, 1.5, 3]),
        (check_number, [0, -1.5, 1e308], [True, 10**400, 10**5000]),
        (share, [0, 0.5], [-1e-9, 1, 1.0, True]),
        (partial(check_number, above=0, most=1), [1e-9, 1], [0, 1.1, -1]),
        (check_flag, [True, False], [0, 1, "true"]),
    ],
)
def test_numbers_and_flags(check: Callable[[str, Any], None], good: list, bad: list) -> None:
    """The message begins with the name."""
    for value in good:
        check("batch_size", value)
    for value in [*bad, *(x for x in NONSENSE if x is not None or None not in good)]:
        with pytest.raises(InputError, match=r"^batch_size: expected .*, found "):
            check("batch_size", value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), np.float16(3)])
def test_whole_numbers_are_integers(value: Any) -> None:
    """By definition, whatever the type of a whole number, also of one of several choices."""
    check_number("k", value, least=-1e300)
    for found in (check_count("k", value), optional_count("k", value)):
        assert type(found) is int and found == 3
    assert type(check_choice("base", value, (2, 3, "e"))) is int
    assert optional_count("k", None) is None


def test_strings() -> None:
    """A choice is one of those listed, of the same type, and need not be hashable."""
    check_choice("shuffle", None, ("sentences", None))
    check_path("corpus", Path("a"))
    check_text("namespace", "a")
    for value in [0, 1, True, "", "Sentences", [], {}, NAN]:
        with pytest.raises(InputError, match=r"^shuffle: expected one of 'sentences', null"):
            check_choice("shuffle", value, ("sentences", None))
    for value in [None, True, 1, "", "a\0b", [], ["a"], {}]:
        with pytest.raises(InputError, match=r"^corpus: expected a path, found"):
            check_path("corpus", value)
        if value != "a\0b":
            with pytest.raises(InputError, match=r"^namespace: expected a string that is"):
                check_text("namespace", value)


def test_long_values_are_cut_in_messages() -> None:
    """None is shown as null, as in a config, and a long list is cut."""
    with pytest.raises(InputError, match=r"found null$"):
        check_count("n", None)
    with pytest.raises(InputError, match=r"found \[0, 0, .{,60}\.\.\.$"):
        check_count("n", [0] * 1000)


@pytest.mark.parametrize("folder", ["adapters", "elmo", "modules", "ops", "plugin", "text"])
def test_errors_about_values_are_of_one_kind(folder: str) -> None:
    """By definition: what users call raises an `InputError` for a wrong value, and no other
    `ValueError` or `TypeError` with a message. The folders `formats` and `files` raise others to
    themselves."""
    for file in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                raised = ast.unparse(node.exc.func)
                assert raised not in ("ValueError", "TypeError"), f"{file}:{node.lineno}"
