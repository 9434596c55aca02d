"""The forms in which `Elmo.embed` takes sentences."""

from collections.abc import Iterable, Mapping, Set
from typing import Any


def token_lists(sentences: Any) -> tuple[list[list[str]], bool]:
    """The input of `Elmo.embed` as lists of tokens, and whether it is a single sentence."""
    if isinstance(sentences, str):
        return [sentences.split()], True
    items = _items(sentences, "expected a sentence, its tokens in a list, or a list of such lists")
    n_strings = sum(isinstance(item, str) for item in items)
    if 0 < n_strings < len(items):
        other = next(item for item in items if not isinstance(item, str))
        raise ValueError(
            "expected a list of tokens or a list of lists of them, "
            f"found a string and {other!r} in one"
        )
    if n_strings:
        for token in items:
            if token.split() != [token]:
                raise ValueError(
                    f"expected one sentence's tokens, found {token!r} among them; several "
                    "sentences are a list of lists: [s.split() for s in sentences]"
                )
        return [items], True
    batch = []
    for number, item in enumerate(items):
        tokens = _items(item, f"sentence {number}: expected a list of tokens")
        for token in tokens:
            if not isinstance(token, str):
                raise ValueError(
                    f"sentence {number}: expected tokens that are strings, found {token!r}"
                )
        batch.append(tokens)
    return batch, False


def _items(found: Any, expected: str) -> list[Any]:
    if not isinstance(found, Iterable) or isinstance(found, (Mapping, Set)):
        raise ValueError(f"{expected}, found {found!r}")
    return list(found)
