import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elmo_plugin.checks import InputError, fail


@contextmanager
def named(name: str) -> Iterator[None]:
    """Let the errors of invalid input and of missing files begin with `name` and a colon."""
    try:
        yield
    except (InputError, FileNotFoundError) as error:
        raise type(error)(f"{name}: {error}") from error


def json_object(argument: str, text: str | None) -> dict[str, Any]:
    """The object of JSON in an argument, empty if it was not given."""
    if not text or text.isspace():
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{argument}: expected an object of JSON, found {text!r}: {error}"
        ) from None
    if not isinstance(found, dict):
        fail(argument, "an object of JSON", found)
    return found
