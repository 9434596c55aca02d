"""The forms in which `Elmo.embed` takes sentences, and the batches in which it reads them."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import count, islice
from typing import Any

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.raw_text import RawText, split_tokens

SPACE = re.compile(r"[ \t\r\n]")
"""No token contains these. Others, such as a no-break space, may be part of one."""

MAX_TOKENS = 2048
"""64 sentences of ordinary length, enough rows for efficient matrix products."""

PART_TOKENS = 8 * MAX_TOKENS
"""
Number of tokens whose vectors `Elmo.stream` has in memory at a time: 64 MiB at the paper's 2P =
1024. Sentences of several batches have little padding when they are sorted by length.
"""


def token_lists(sentences: Any, raw: bool = False) -> tuple[list[list[str]], bool]:
    """The input of `Elmo.embed` as lists of tokens, and whether it is a single sentence."""
    if raw:
        split, is_single = raw_sentences(sentences)
        return [sentence.tokens for sentence in split], is_single
    if isinstance(sentences, str):
        return [sentences.split()], True
    if is_series(sentences):
        return [tokens_of(*named) for named in zip(names_of(sentences), sentences)], False
    items = _items(sentences, "expected a sentence, its tokens in a list, or a list of such lists")
    n_strings = sum(isinstance(item, str) for item in items)
    if 0 < n_strings < len(items):
        other = next(item for item in items if not isinstance(item, str))
        raise InputError(
            "expected a list of tokens or a list of lists of them, "
            f"found a string and {other!r} in one"
        )
    if n_strings:
        return [_tokens("one sentence", items)], True
    return lists_of_tokens(items), False


def raw_sentences(sentences: Any) -> tuple[list[RawText], bool]:
    """
    The sentences of `embed` and `score` with `raw`, and whether it is a single one: a string, or
    strings in a list or a pandas Series. Raises an `InputError` for anything else.
    """
    if isinstance(sentences, str):
        return [split_tokens(sentences)], True
    strings = _items(sentences, "expected a sentence or a list of sentences")
    for name, string in zip(names_of(sentences), strings):
        if not isinstance(string, str):
            raise InputError(f"{name}: expected a string with raw, found {string!r}")
    return [split_tokens(string) for string in strings], False


def lists_of_tokens(sentences: Iterable[Any]) -> list[list[str]]:
    """
    Several sentences as lists of tokens. Raises an `InputError` that names a wrong one by its
    index.
    """
    items = _items(sentences, "expected lists of tokens")
    return [_tokens(f"sentence {number}", item) for number, item in enumerate(items)]


def tokens_of(name: str, sentence: Any, raw: bool = False) -> list[str]:
    """
    The tokens of a sentence in either form. `raw`: whether a string is raw text. Missing values of
    pandas are not iterable. Raises an `InputError` that begins with the name.
    """
    if isinstance(sentence, str):
        return split_tokens(sentence).tokens if raw else sentence.split()
    return _tokens(name, sentence, "a sentence or a list of its tokens")


def parts(sentences: Iterable[Any], n_tokens: int, raw: bool = False) -> Iterator[list[list[str]]]:
    """Divide sentences into parts, which end when they have `n_tokens`, boundaries included."""
    check_is_list(sentences, "expected sentences")
    part, left = [], n_tokens
    for name, sentence in zip(names_of(sentences), sentences):
        part.append(tokens := tokens_of(name, sentence, raw))
        left -= len(tokens) + 2
        if left <= 0:
            yield part
            part, left = [], n_tokens
    if part:
        yield part


def _tokens(name: str, value: Any, expected: str = "a list of tokens") -> list[str]:
    tokens = _items(value, f"{name}: expected {expected}")
    for token in tokens:
        if not isinstance(token, str) or not token or SPACE.search(token):
            raise InputError(
                f"{name}: expected tokens, which are strings without spaces, found "
                f"{str(token) if isinstance(token, str) else token!r} among them; several "
                "sentences are a list of lists: [s.split() for s in sentences]"
            )
    return tokens


def _items(value: Any, expected: str) -> list[Any]:
    check_is_list(value, expected)
    return list(value)


def check_is_list(value: Any, expected: str) -> None:
    """
    Raise an `InputError` if a value is not a list or the like. A string is not a list of its
    letters, nor a DataFrame one of its columns' names.
    """
    if _is_of_pandas("DataFrame", value):
        raise InputError(f"{expected}, found a DataFrame; choose one of its columns")
    if not isinstance(value, Iterable) or isinstance(value, (str, Mapping, Set)):
        raise InputError(f"{expected}, found {value!r}")


def is_series(value: Any) -> bool:
    """Whether a value is a column of a DataFrame, whose rows have labels."""
    return _is_of_pandas("Series", value)


def names_of(sentences: Any) -> Iterator[str]:
    """What errors call the sentences."""
    if is_series(sentences):
        return (f"row {label!r}" for label in sentences.index)
    return (f"sentence {number}" for number in count())


def _is_of_pandas(kind: str, value: Any) -> bool:
    pandas = sys.modules.get("pandas")  # only if it was imported, there are objects of it
    return pandas is not None and isinstance(value, getattr(pandas, kind))


def groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


def batches_by_length(lengths: Sequence[int], max_tokens: int = MAX_TOKENS) -> Iterator[list[int]]:
    """
    Divide sentences into batches of similar lengths, for little padding. A batch has at most
    `max_tokens` tokens, including padding and boundaries, to bound the memory. A longer sentence is
    a batch by itself.

    `lengths`: sentence lengths in tokens. Yields for each batch the indices of its sentences in
    `lengths`, starting with the longest.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        # The first sentence of a batch is the longest, and the others are padded to its length.
        width = lengths[batch[0] if batch else place] + 2
        if batch and (len(batch) + 1) * width > max_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
