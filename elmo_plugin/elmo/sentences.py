"""The forms in which `Elmo.embed` takes sentences, and the batches in which it reads them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import count, groupby, islice
from typing import Any

from elmo_plugin.checks import InputError, check_flag, fail
from elmo_plugin.elmo.raw_text import Row, split_tokens
from elmo_plugin.text.advice import current
from elmo_plugin.text.characters import one_token

SPACE, BREAK = re.compile(r"[ \t\r\n]"), re.compile(r"[\t\r\n]")
"""
Whitespace in a string that is probably a sentence and not a token, and in one that is certainly no
token. Any other whitespace in a token is read as `one_token` says.
"""

COLUMN_PACKAGES = ("pandas", "pyarrow", "polars", "datasets")
"""The packages whose arrays are columns of tables, with a sentence in each row."""

MAX_TOKENS = 2048
"""64 sentences of ordinary length, enough rows for a CPU's matrix products."""

DEVICE_TOKENS = 16_384
"""The same on other devices, where a step of more rows takes hardly longer."""

PART_TOKENS = 16_384
"""
Number of tokens whose vectors `Elmo.stream` has in memory at a time on a CPU: 64 MiB at the paper's
2P = 1024. Sentences of several batches have little padding when they are sorted by length.
"""

PART_BATCHES = 4
"""Least number of batches of such a part, for which it may have more tokens."""


def token_rows(sentences: Any, raw: bool = False) -> tuple[list[Row], bool]:
    """
    The input of `Elmo.embed` as the rows of its result, and whether it is a single one. With `raw`,
    these are a string, or strings in rows of any type, or `Row`s. Raises an `InputError` for
    anything else.
    """
    check_flag("raw", raw)
    if not raw:
        lists, is_single = token_lists(sentences)
        return [Row(tokens) for tokens in lists], is_single
    if isinstance(sentences, str):
        return [split_tokens(sentences)], True
    rows = list(named_rows(sentences, "expected a sentence or a list of sentences"))
    for name, text in rows:
        if not isinstance(text, str | Row):
            raise InputError(f"{name}: expected a string with raw, found {text!r}")
    return [row_of(*named, raw) for named in rows], False


def split_row(row: Row) -> list[list[str]]:
    """The tokens of each sentence of a row. Without tokens, it is one sentence."""
    if row.sentence is None:
        return [row.tokens]
    by_sentence = groupby(zip(row.sentence, row.tokens), key=lambda pair: pair[0])
    return [[token for _, token in pairs] for _, pairs in by_sentence] or [[]]


def sentences_of(rows: Iterable[Row]) -> list[list[str]]:
    """The tokens of all sentences of rows."""
    return [tokens for row in rows for tokens in split_row(row)]


def by_row(rows: Iterable[Row], items: Iterable[Any]) -> list[list[Any]]:
    """Items for the sentences of rows, in their order, as one list for each row."""
    iterator = iter(items)
    return [list(islice(iterator, len(split_row(row)))) for row in rows]


def token_lists(sentences: Any) -> tuple[list[list[str]], bool]:
    """
    Sentences as lists of tokens, and whether it is a single sentence. The type decides: strings in
    a list or tuple are the tokens of one sentence, and strings in a column of a table are
    sentences. Other types can hold either: they are sentences if there is whitespace in one of the
    strings, which no token has. Raises an `InputError` if there is none in any.
    """
    if isinstance(sentences, str):
        return [sentences.split()], True
    expected = "expected a sentence, its tokens in a list, or a list of such lists"
    if not isinstance(sentences, list | tuple):
        rows = list(named_rows(sentences, expected))
        if not is_column(sentences) and is_words([row for _, row in rows]):
            raise InputError(
                "expected sentences or the tokens of one, found strings without spaces, which "
                f"may be either, in x, of type {type(sentences).__name__}: list(x) for the tokens "
                "of one sentence, [s.split() for s in x] for sentences"
            )
        return [tokens_of(*row) for row in rows], False
    strings = [item for item in sentences if isinstance(item, str)]
    if not strings:
        return lists_of_tokens(sentences), False
    if len(strings) < len(sentences):
        other = next(item for item in sentences if not isinstance(item, str))
        raise InputError(
            "expected a list of tokens or a list of lists of them, "
            f"found a string and {other!r} in one"
        )
    for text in map(str, filter(SPACE.search, strings)):
        raise InputError(
            f"one sentence: expected tokens, which are strings without spaces, found {text!r} "
            "among them; several sentences are a list of lists: [s.split() for s in sentences]; a "
            "space inside a token is read as _ in a list of lists, such as [tokens]"
        )
    return [_tokens("one sentence", strings)], True


def lists_of_tokens(sentences: Iterable[Any]) -> list[list[str]]:
    """
    Several sentences as lists of tokens. Raises an `InputError` that names a wrong one by its
    index.
    """
    return [_tokens(*row) for row in named_rows(sentences, "expected lists of tokens")]


def tokens_of(name: str, sentence: Any) -> list[str]:
    """
    The tokens of a sentence in either form. Missing values of all packages are not iterable. Raises
    an `InputError` that begins with the name.
    """
    if isinstance(sentence, str):
        return sentence.split()
    return _tokens(name, sentence, "a sentence or a list of its tokens")


def row_of(name: str, sentence: Any, raw: bool) -> Row:
    """
    The tokens of a string of raw text or those of a `Row`, if `raw`, or of a sentence as in
    `tokens_of`.
    """
    if raw and isinstance(sentence, str | Row):
        return split_tokens(sentence) if isinstance(sentence, str) else sentence
    return Row(tokens_of(name, sentence))


def parts(sentences: Iterable[Any], n_tokens: int, raw: bool = False) -> Iterator[list[Row]]:
    """Divide rows into parts, which end when they have `n_tokens`, boundaries included."""
    check_flag("raw", raw)
    advise_of_words(sentences)
    part, left = [], n_tokens
    for name, sentence in named_rows(sentences):
        part.append(row := row_of(name, sentence, raw))
        left -= len(row.tokens) + 2 * len(split_row(row))
        if left <= 0:
            yield part
            part, left = [], n_tokens
    if part:
        yield part


def _tokens(name: str, value: Any, expected: str = "a list of tokens") -> list[str]:
    check_is_list(value, f"{name}: expected {expected}")
    tokens = list(value)
    for token in tokens:
        if not isinstance(token, str) or not token.strip() or BREAK.search(token):
            found = str(token) if isinstance(token, str) else token  # not a string of NumPy
            fail(name, "tokens, which are words without tabs and line breaks", found)
    return list(map(one_token, tokens))


def named_rows(sentences: Any, expected: str = "expected sentences") -> Iterator[tuple[str, Any]]:
    """
    Each row of several sentences, with what errors call it. Raises an `InputError` that begins with
    what was `expected` as `check_is_list`.
    """
    check_is_list(sentences, expected)
    labels = labels_of(sentences)
    kind, numbers = ("sentence", count()) if labels is None else ("row", labels)
    for number, row in zip(numbers, sentences):
        yield f"{kind} {number!r}", row.as_py() if hasattr(row, "as_py") else row  # of Arrow


def named_spans(start: Any, end: Any, n_rows: int) -> list[tuple[str, Any, Any]]:
    """What errors call the row of each of `n_rows` sentences, and its span in two columns."""
    columns = []
    for name, column in (("start", start), ("end", end)):
        columns.append(list(named_rows(column, f"{name}: expected a list of numbers")))
        if len(columns[-1]) != n_rows:
            fail(name, f"{n_rows} numbers, one for each sentence", len(columns[-1]))
    return [(row, first, last) for (row, first), (_, last) in zip(*columns)]


def check_is_list(value: Any, expected: str) -> None:
    """
    Raise an `InputError` if a value is not a list or the like. A string is not a list of its
    letters, nor a DataFrame one of its columns or their names.
    """
    if is_table(value):
        raise InputError(f"{expected}, found a {type(value).__name__}; choose one of its columns")
    is_scalar = getattr(value, "ndim", 1) == 0 or hasattr(value, "as_py")
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping | Set) or is_scalar:
        raise InputError(f"{expected}, found {value!r}")


def is_table(value: Any) -> bool:
    """Whether a value is a DataFrame or another table of pandas, polars, Arrow or `datasets`."""
    return hasattr(type(value), "columns") or hasattr(type(value), "column_names")


def is_column(value: Any) -> bool:
    """Whether a value is a column of a table, or an array or index of the same package."""
    kinds = type(value).__mro__
    return any(kind.__module__.partition(".")[0] in COLUMN_PACKAGES for kind in kinds)


def labels_of(sentences: Any) -> Any:
    """The index of a pandas Series, whose rows have labels; `None` for anything else."""
    index = getattr(sentences, "index", None)  # a method of a list
    return index if hasattr(index, "is_unique") else None


def is_words(rows: Sequence[Any]) -> bool:
    """Whether rows are strings without whitespace, which may be the tokens of one sentence."""
    return bool(rows) and all(isinstance(row, str) and not SPACE.search(row) for row in rows)


def advise_of_words(sentences: Any) -> None:
    """Say so if a list that is read as sentences is probably the tokens of one."""
    if isinstance(sentences, list | tuple) and len(sentences) > 1 and is_words(sentences):
        n = len(sentences)
        current().find("a list of words", n, n, map(repr, sentences))


def groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
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
