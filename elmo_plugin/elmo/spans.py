"""
The vectors of words and phrases that are given by their places: a sentence, and where the span
starts and ends in it, in characters or in tokens.
"""

import re
from bisect import bisect, bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, tee
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import InputError, check_choice, check_flag, fail, whole_span
from elmo_plugin.elmo.places import CheckedPlaces
from elmo_plugin.elmo.raw_text import Row
from elmo_plugin.elmo.sentences import named_rows, named_spans, row_of

UNITS = ("characters", "tokens")
"""What the places of spans are counted in."""

SPLIT_TEXTS = 1024
"""The number of last texts whose tokens are kept, for other spans in them."""


class Use(NamedTuple):
    """
    An occurrence of a word or phrase. `word`: its name in the list. `token`: its form in the text,
    with single spaces between several tokens. `sentence`: the number of the line in its file, or of
    the sentence in a list, or the label of the row in a pandas Series. `position`: the number of
    its first token in the sentence. `text`: the tokens of the sentence with single spaces between
    them. `sentence_in_row`: the number of the sentence in a line or string of raw text. `line`: the
    number of the line in which the sentence begins, which without running text is `sentence`.
    Numbers are counted from 0. `control_of`: the listed word whose control `word` is, or an empty
    string for a listed word.
    """

    word: str
    token: str
    file: str
    sentence: int
    position: int
    text: str
    sentence_in_row: int = 0
    line: int = 0
    control_of: str = ""


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
    uses.sort(key=attrgetter("text"))
    for use, vector in embedded(elmo, uses, layer, raw, max_tokens=most):
        vectors[use.sentence] = vector
    return vectors


def check_state(elmo: Any) -> None:
    """Raise an `InputError` if vectors depend on other sentences, some of which are left out."""
    if elmo.initial_state == "carry":
        fail("initial_state", "zero or warm, because sentences are left out", elmo.initial_state)


def embedded(
    elmo: Any, uses: Iterable[Use], layer: str | int, raw: bool = False, **options: Any
) -> Iterator[tuple[Use, np.ndarray]]:
    """
    Uses, each with its vector, the mean over its tokens. A sentence is read once for all uses in it
    that follow one another. `raw`: whether they are of raw text.
    """
    # The second iterator is ahead by the sentences that the stream embeds at a time.
    uses, ahead = tee(uses)
    texts = (text.split(" ") for text, _ in groupby(ahead, key=attrgetter("text")))
    rows = (Row(tokens, sentence=[0] * len(tokens)) if raw else tokens for tokens in texts)
    vectors = elmo.stream(rows, layer, raw=raw, **options)
    for (_, of_text), numbers in zip(groupby(uses, key=attrgetter("text")), vectors):
        for use in of_text:
            end = use.position + use.token.count(" ") + 1
            yield use, numbers[..., use.position : end, :].mean(axis=-2)


def find_spans(rows: Iterable[tuple[Any, ...]], unit: str, raw: bool) -> Iterator[Use]:
    """
    The use at the span of each row. `rows`: what errors call a row, its sentence, the start and the
    end of the span, and perhaps its word. See `Elmo.embed_spans` for `unit`, `raw` and errors.
    """
    check_choice("unit of the spans", unit, UNITS)
    checked = CheckedPlaces(raw)
    split = lru_cache(SPLIT_TEXTS)(lambda text: row_of("", text, raw))
    for number, (name, sentence, start, end, *word) in enumerate(rows):
        is_text = isinstance(sentence, str)
        given: Any = list(sentence) if isinstance(sentence, Iterator) else sentence
        row = split(given) if is_text else row_of(name, given, raw)
        text = given if is_text else " ".join(given)
        tokens = re.finditer(r"\S+", text if is_text else " ".join("_" * len(x) for x in given))
        places, size = row.spans or [token.span() for token in tokens], len(text)
        if unit == "tokens":
            places, size = [(k, k + 1) for k in range(len(row.tokens))], len(row.tokens)
        start, end = whole_span(name, unit, start, end, size)
        inside = range(bisect(places, start, key=itemgetter(1)), bisect_left(places, (end,)))
        if not inside or start == end:
            fail(name, "a span with a token", text[start:end])
        first, last = places[inside[0]][0], places[inside[-1]][1]
        words = text if unit == UNITS[0] else row.tokens
        checked.add(name, words, places, (start, end), (first, last), *word)
        yield _use(number, name, row, inside[0], inside[-1] + 1, *word)
    checked.end()


def _use(number: int, name: str, row: Row, first: int, last: int, word: str = "") -> Use:
    """The use that is the tokens from `first` to before `last` of a row."""
    of_sentence = row.sentence or [0] * len(row.tokens)  # in order
    token = " ".join(row.tokens[first:last])
    if of_sentence[first] != of_sentence[last - 1]:
        raise InputError(f"{name}: expected a span in one sentence, found {token!r} in several")
    in_row = of_sentence[first]
    begin = bisect_left(of_sentence, in_row)
    text = " ".join(row.tokens[begin : bisect(of_sentence, in_row)])
    return Use(word or token, token, "", number, first - begin, text, in_row, number)
