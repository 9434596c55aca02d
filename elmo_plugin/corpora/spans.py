"""
The vectors of words and phrases that are given by their places: a sentence, and where the span
starts and ends in it, in characters or in tokens.
"""

import re
from bisect import bisect, bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, groupby, tee
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


def check_state(model: Any, kind: Any = object) -> None:
    """
    Raise an `InputError` if a model is not of this class, or if its `initial_state` lets a sentence
    depend on those before it, which are no text.
    """
    if not isinstance(model, kind):
        fail("model", f"a {kind.__name__}", model)
    if model.initial_state == "carry":
        fail("initial_state", "zero or warm, because these sentences are no text", "carry")


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
    read = lru_cache(SPLIT_TEXTS)(lambda text: _read("", text, raw))
    for number, (name, given, start, end, *word) in enumerate(rows):
        x = read(given) if isinstance(given, str) else _read(name, given, raw)
        text: Any = x.text
        spans = x.spans
        if unit == UNITS[1]:
            text, spans = x.tokens, [(k, k + 1) for k in range(len(x.tokens))]
        start, end = whole_span(name, unit, start, end, len(text))
        inside = range(bisect(spans, start, key=itemgetter(1)), bisect_left(spans, (end,)))
        if not inside or start == end:
            fail(name, "a span with a token", x.text[start:end])
        whole = spans[inside[0]][0], spans[inside[-1]][1]
        checked.add(name, text, spans, (start, end), whole, *word)
        token = " ".join(x.tokens[inside.start : inside.stop])
        (sentence, first), (other, last) = x.places[inside[0]], x.places[inside[-1]]
        if other is not sentence:
            raise InputError(f"{name}: expected a span in one sentence, found {token!r} in several")
        own = replace(sentence, row=number, line=number)
        yield Use("".join(word) or token, own, first, last + 1)
    checked.end()


class _Text(NamedTuple):
    """
    A text, its tokens, the first character of each and the one after its last, and the sentence of
    each with its number there.
    """

    text: str
    tokens: list[str]
    spans: list[tuple[int, int]]
    places: list[tuple[Sentence, int]]


def _read(name: str, given: Any, raw: bool) -> _Text:
    given = list(given) if isinstance(given, Iterator) else given
    row = row_of(name, given, raw)
    tokens = tokens_of_row(row)
    places = [(sentence, k) for sentence in row for k in range(len(sentence.tokens))]
    if isinstance(given, str):
        spans = (
            places_of_row(row)["spans"] if raw else [x.span() for x in re.finditer(r"\S+", given)]
        )
        return _Text(given, tokens, spans, places)
    written = tokens if is_row(given) else given  # tokens may have whitespace
    ends = accumulate(len(x) + 1 for x in written)
    spans = [(end - 1 - len(x), end - 1) for x, end in zip(written, ends)]
    return _Text(" ".join(written), tokens, spans, places)
