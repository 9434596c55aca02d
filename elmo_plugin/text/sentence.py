"""A sentence, which is what all that reads text gives and all that computes takes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any


@dataclass(frozen=True, slots=True)
class Sentence:
    """
    The tokens of a sentence, and where it is from. All counts begin at 0.

    tokens : `list[str]`
        The words w_1 .. w_n.
    row : `Any`
        The index of the string, list or line that it is in, or the label of a pandas Series' row.
    in_row : `int`
        Its index in a row of raw text, which may have several sentences.
    line : `Any`
        The number of the line in which it begins, which is `row` except in running text.
    file : `str`
        The file, if there are several.
    spans : `list[tuple[int, int]]`, optional
        Of raw text, the start and the exclusive end of each token, in characters of the row or of
        the whole running text.
    words : `list[int]`, optional
        Of raw text, the index of the word in the row that each token is part of. Words are
        separated by whitespace.
    """

    tokens: list[str]
    row: Any = 0
    in_row: int = 0
    line: Any = 0
    file: str = ""
    spans: list[tuple[int, int]] | None = None
    words: list[int] | None = None

    @property
    def text(self) -> str:
        """The tokens with single spaces between them."""
        return " ".join(self.tokens)


Row = list[Sentence]
"""The sentences of a string, list or line: of raw text any number but none, otherwise one."""


def tokens_of_row(row: Row) -> list[str]:
    return row[0].tokens if len(row) == 1 else [token for x in row for token in x.tokens]


def places_of_row(row: Row) -> dict[str, Any]:
    """
    The span, the word and the sentence of each token of a row of raw text. Sentences that are not
    of one string, as those of running text, count their words apart.
    """
    words = [(k - x.in_row, word) for k, x in enumerate(row) for word in x.words or ()]
    numbers = dict(zip(dict.fromkeys(words), count(words[0][1] if words else 0)))
    return {
        "spans": [span for x in row for span in x.spans or ()],
        "words": [numbers[word] for word in words],
        "sentence": [k for k, x in enumerate(row) for _ in x.tokens],
    }


def groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


def parts(rows: Iterable[Row], n_tokens: int) -> Iterator[list[Row]]:
    """Divide rows into parts, which end when they have `n_tokens`, boundaries included."""
    part, left = [], n_tokens
    for row in rows:
        part.append(row)
        left -= sum(len(x.tokens) + 2 for x in row)
        if left <= 0:
            yield part
            part, left = [], n_tokens
    if part:
        yield part
