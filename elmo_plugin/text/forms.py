"""Makes sentences of every form in which a user gives them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from itertools import count, islice
from os import PathLike
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError, check_flag, fail
from elmo_plugin.text.advice import current
from elmo_plugin.text.characters import one_token
from elmo_plugin.text.raw_text import RUNNING, running_sentences, split_text
from elmo_plugin.text.sentence import Row, Sentence, tokens_of_row

SPACE, BREAK = re.compile(r"[ \t\r\n]"), re.compile(r"[\t\r\n]")
"""
Whitespace in a string that is probably a sentence and not a token, and in one that is certainly no
token. Any other whitespace in a token is read as `one_token` says.
"""

COLUMN_PACKAGES = ("pandas", "pyarrow", "polars", "datasets")
"""The packages whose arrays are columns of tables, with a sentence in each row."""


def rows_of(sentences: Any, raw: bool = False) -> tuple[list[Row], bool]:
    """
    The input of `Elmo.embed` as the rows of its result, and whether it is a single one. The type
    decides: strings in a list or tuple are the tokens of one sentence, and strings in a column of a
    table are sentences. Other types can hold either: they are sentences if there is whitespace in
    one of the strings, which no token has. With `raw`, all strings are rows. Raises an `InputError`
    for anything else.
    """
    check_flag("raw", raw)
    if isinstance(sentences, str | Sentence):
        return [row_of("", sentences, raw)], True
    if raw:
        rows = list(named_rows(sentences, "expected a sentence or a list of sentences"))
        for name, value in rows:
            if not isinstance(value, str) and not is_row(value):
                raise InputError(f"{name}: expected a string with raw, found {value!r}")
        return [row_of(*named, raw) for named in rows], False
    if not isinstance(sentences, list | tuple):
        expected = "expected a sentence, its tokens in a list, or a list of such lists"
        rows = list(named_rows(sentences, expected))
        if not is_column(sentences) and is_words([value for _, value in rows]):
            raise InputError(
                "expected sentences or the tokens of one, found strings without spaces, which "
                f"may be either, in x, of type {type(sentences).__name__}: list(x) for the tokens "
                "of one sentence, [s.split() for s in x] for sentences"
            )
        return [row_of(*named) for named in rows], False
    if any(isinstance(item, str) for item in sentences):
        return [[Sentence(_tokens_of_one(sentences))]], True
    lists = named_rows(sentences, "expected lists of tokens")
    return [row_of(*named, expected="a list of tokens") for named in lists], False


def _tokens_of_one(items: Sequence[Any]) -> list[str]:
    """The tokens of one sentence. Raises an `InputError` unless all are strings without spaces."""
    for item in items:
        if not isinstance(item, str):
            raise InputError(
                "expected a list of tokens or a list of lists of them, "
                f"found a string and {item!r} in one"
            )
    for text in map(str, filter(SPACE.search, items)):
        raise InputError(
            f"one sentence: expected tokens, which are strings without spaces, found {text!r} "
            "among them; several sentences are a list of lists: [s.split() for s in sentences]; a "
            "space inside a token is read as _ in a list of lists, such as [tokens]"
        )
    return _tokens("one sentence", items)


def rows_in(
    sentences: Any, raw: bool = False, expected: str = "expected sentences"
) -> Iterator[Row]:
    """
    Several sentences one by one, as they are read: strings of any list are sentences. Raises an
    `InputError` that names a wrong one, and one that begins with what was `expected` as
    `check_is_list`.
    """
    check_flag("raw", raw)
    if isinstance(sentences, list | tuple) and len(sentences) > 1 and is_words(sentences):
        n = len(sentences)  # probably the tokens of one sentence
        current().find("a list of words", n, n, map(repr, sentences))
    labels = labels_of(sentences)
    numbers = count() if labels is None else labels
    for number, named in zip(numbers, named_rows(sentences, expected)):
        yield row_of(*named, raw, row=number, line=number)


def text_rows(
    lines: Iterable[tuple[int, str]],
    raw: bool | str,
    file: str = "",
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Row]:
    """
    The rows of a text in numbered lines: each line, or with `RUNNING` each sentence of the `shard`,
    the first one and the step to the next.
    """
    if raw == RUNNING:
        return ([x] for x in running_sentences((text for _, text in lines), *shard, file))
    return (row_of("", x, bool(raw), row=k, line=k, file=file) for k, x in lines)


def row_of(
    name: str,
    value: Any,
    raw: bool = False,
    expected: str = "a sentence or a list of its tokens",
    **place: Any,
) -> Row:
    """
    The sentences of a string, which is split as raw text if `raw`, or of a list of tokens;
    sentences and rows stay. `place`: other fields of theirs. Missing values of all packages are
    not iterable. Raises an `InputError` that begins with the name.
    """
    if is_row(value):
        return [value] if isinstance(value, Sentence) else value
    if isinstance(value, str):
        return split_text(value, **place) if raw else [Sentence(value.split(), **place)]
    return [Sentence(_tokens(name, value, expected), **place)]


def by_row(rows: Iterable[Sized], items: Iterable[Any]) -> Iterator[list[Any]]:
    """Items for the sentences of rows, in their order, as one list for each row."""
    iterator = iter(items)
    return (list(islice(iterator, len(row))) for row in rows)


def phrases_of(given: Any, n_rows: int, is_single: bool) -> tuple[list[list[Any]], bool]:
    """
    The continuations of each of `n_rows` beginnings as tokens, and whether they are a column, with
    one for each; see `LanguageModel.score_continuations`. `is_single`: whether the only beginning
    was given by itself.
    """
    expected, one_each = "continuations: expected words or phrases", False
    given = [given] if isinstance(given, str) else given
    named = list(named_rows(given, expected))
    if is_single:
        lists = [named]
    elif any(isinstance(x, Iterable) and not isinstance(x, str) for _, x in named):
        lists = [list(named_rows(own, f"{name}: {expected}")) for name, own in named]
    elif one_each := not isinstance(given, list | tuple):
        lists = [[phrase] for phrase in named]
    else:
        lists = [named] * n_rows
    if len(lists) != n_rows:
        fail("continuations", f"a list for each of {n_rows} beginnings", given)
    phrases = [[tokens_of(*phrase) for phrase in own] for own in lists]
    if (n_rows and not any(phrases)) or not all(map(all, phrases)):
        fail("continuations", "at least one, and words in each", given)
    return phrases, one_each


def tokens_of(name: str, sentence: Any) -> list[str]:
    """The tokens of a sentence in any form but raw text; see `row_of`."""
    return tokens_of_row(row_of(name, sentence))


def is_row(value: Any) -> bool:
    """Whether a value is a sentence, or the sentences of a row."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Sentence)


def lists_of_tokens(sentences: Iterable[Any]) -> list[list[str]]:
    """
    Several sentences as lists of tokens. Raises an `InputError` that names a wrong one by its
    index.
    """
    return [_tokens(*row) for row in named_rows(sentences, "expected lists of tokens")]


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


def paths_of(files: Any) -> list[Path]:
    """The paths of several files, or of one."""
    return list(map(Path, [files] if isinstance(files, str | PathLike) else files))


def records_of(rows: Any) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries. The table may be one of those of `is_table`."""
    if not is_table(rows):
        return list(rows)
    names = list(getattr(rows, "column_names", None) or rows.columns)
    columns = ([value for _, value in named_rows(rows[name])] for name in names)
    return [dict(zip(names, row)) for row in zip(*columns)]


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
