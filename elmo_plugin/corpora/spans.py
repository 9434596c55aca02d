"""
The vectors of words and phrases that are given by their places: a sentence, and where the span
starts and ends in it, in characters or in tokens.
"""

import re
from bisect import bisect, bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, tee
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import InputError, check_choice, check_flag, fail, whole_span
from elmo_plugin.text.forms import is_row, named_rows, named_spans, row_of
from elmo_plugin.text.places import CheckedPlaces
from elmo_plugin.text.sentence import Sentence, places_of_row, tokens_of_row

UNITS = ("characters", "tokens")
"""What the places of spans are counted in."""

SPLIT_TEXTS = 1024
"""The number of last texts whose tokens are kept, for other spans in them."""


class Use(NamedTuple):
    """
    An occurrence of a word or phrase: the tokens from `first` to before `last` of a sentence.
    `word`: its name in the list. `control_of`: the listed word whose control it is, or an empty
    string for a listed word.
    """

    word: str
    sentence: Sentence
    first: int
    last: int
    control_of: str = ""

    @property
    def token(self) -> str:
        """Its form in the text, with single spaces between several tokens."""
        return " ".join(self.sentence.tokens[self.first : self.last])


def embed_spans(
    elmo: Any, sentences: Any, start: Any, end: Any, layer: Any, unit: str, raw: bool, most: Any
) -> np.ndarray:
    """
    The vectors of spans. `most`: `max_tokens`. See `Elmo.embed_spans`. Equal sentences are embedded
    once.
    """
    check_flag("raw", raw)
    check_state(elmo)
    rows = list(named_rows(sentences))
    spans = [(*x, *span) for x, (_, *span) in zip(rows, named_spans(start, end, len(rows)))]
    uses = list(find_spans(spans, unit, raw))
    shape = (elmo.n_layers, elmo.output_dim) if layer == "all" else (elmo.output_dim,)
    vectors = np.empty((len(uses), *shape), dtype=np.float32)
    uses.sort(key=_tokens)
    for use, vector in embedded(elmo, uses, layer, max_tokens=most):
        vectors[use.sentence.row] = vector
    return vectors


def check_state(elmo: Any) -> None:
    """Raise an `InputError` if vectors depend on other sentences, some of which are left out."""
    if elmo.initial_state == "carry":
        fail("initial_state", "zero or warm, because sentences are left out", elmo.initial_state)


def embedded(
    elmo: Any, uses: Iterable[Use], layer: str | int, **options: Any
) -> Iterator[tuple[Use, np.ndarray]]:
    """
    Uses, each with its vector, the mean over its tokens. A sentence is read once for all uses in
    equal sentences that follow one another.
    """
    # The second iterator is ahead by the sentences that the stream embeds at a time.
    uses, ahead = tee(uses)
    sentences = (next(own).sentence for _, own in groupby(ahead, key=_tokens))
    vectors = elmo.stream(sentences, layer, **options)
    for (_, of_sentence), numbers in zip(groupby(uses, key=_tokens), vectors):
        for use in of_sentence:
            yield use, numbers[..., use.first : use.last, :].mean(axis=-2)


def _tokens(use: Use) -> list[str]:
    return use.sentence.tokens


def find_spans(rows: Iterable[tuple[Any, ...]], unit: str, raw: bool) -> Iterator[Use]:
    """
    The use at the span of each row. `rows`: what errors call a row, its sentence, the start and the
    end of the span, and perhaps its word. See `Elmo.embed_spans` for `unit`, `raw` and errors.
    """
    check_choice("unit of the spans", unit, UNITS)
    checked = CheckedPlaces(raw)
    split = lru_cache(SPLIT_TEXTS)(lambda text: row_of("", text, raw))
    for number, (name, given, start, end, *word) in enumerate(rows):
        value: Any = list(given) if isinstance(given, Iterator) else given
        row = split(value) if isinstance(value, str) else row_of(name, value, raw)
        tokens = tokens_of_row(row)
        if isinstance(value, str):
            text = written = value
        else:
            value = tokens if is_row(value) else value
            text, written = " ".join(value), " ".join("_" * len(x) for x in value)
        places = isinstance(value, str) and places_of_row(row).get("spans")
        if unit == UNITS[1]:
            places = [(k, k + 1) for k in range(len(tokens))]
        elif not places:
            places = [token.span() for token in re.finditer(r"\S+", written)]
        words = text if unit == UNITS[0] else tokens
        start, end = whole_span(name, unit, start, end, len(words))
        inside = range(bisect(places, start, key=itemgetter(1)), bisect_left(places, (end,)))
        if not inside or start == end:
            fail(name, "a span with a token", text[start:end])
        whole = places[inside[0]][0], places[inside[-1]][1]
        checked.add(name, words, places, (start, end), whole, *word)
        token = " ".join(tokens[inside.start : inside.stop])
        before = 0  # tokens of the row
        for sentence in row:
            first, last = inside.start - before, inside.stop - before
            before += len(sentence.tokens)
            if first < len(sentence.tokens):
                break
        if last > len(sentence.tokens):
            raise InputError(f"{name}: expected a span in one sentence, found {token!r} in several")
        own = replace(sentence, row=number, line=number)
        yield Use("".join(word) or token, own, first, last)
    checked.end()
