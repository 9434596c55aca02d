from collections.abc import Iterator
from contextlib import contextmanager

from elmo_plugin.checks import InputError


@contextmanager
def named(name: str) -> Iterator[None]:
    """Let the errors of invalid input and of missing files begin with `name` and a colon."""
    try:
        yield
    except (InputError, FileNotFoundError) as error:
        raise type(error)(f"{name}: {error}") from error
