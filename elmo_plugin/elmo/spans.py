"""
The vectors of words and phrases that are given by their places: a sentence, and where the span
starts and ends in it, in characters or in tokens.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from elmo_plugin.checks import WHOLE, InputError, check_choice, check_flag, fail
from elmo_plugin.elmo.raw_text import Row
from elmo_plugin.elmo.sentences import named_rows, row_of
from elmo_plugin.elmo.uses import Use, check_state, embedded

logger = logging.getLogger(__name__)

UNITS = ("characters", "tokens")
"""What the places of spans are counted in."""


def embed_spans(
    elmo: Any,
    sentences: Any,
    start: Any,
    end: Any,
    layer: str | int,
    unit: str,
    raw: bool,
    max_tokens: int,
) -> np.ndarray:
    """The vectors of spans; see `Elmo.embed_spans`. Equal sentences are embedded once."""
    check_flag("raw", raw)
    check_state(elmo)
    rows = list(named_rows(sentences))
    columns = {"start": start, "end": end}
    for name, column in columns.items():
        columns[name] = [x for _, x in named_rows(column, f"{name}: expected a list of numbers")]
        if len(columns[name]) != len(rows):
            fail(name, f"{len(rows)} numbers, one for each sentence", len(columns[name]))
    names, texts = zip(*rows) if rows else ((), ())
    uses = list(find_spans(zip(names, texts, *columns.values(), repeat(None)), unit, raw))
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for place, use in enumerate(uses):
        by_text[use.text].append(place)
    groups = ([uses[place] for place in places] for places in by_text.values())
    vectors = embedded(elmo, groups, layer, max_tokens=max_tokens)
    shape = (elmo.n_layers, elmo.output_dim) if layer == "all" else (elmo.output_dim,)
    ordered = np.empty((len(uses), *shape), dtype=np.float32)
    for place, (_, vector) in zip(chain.from_iterable(by_text.values()), vectors):
        ordered[place] = vector
    return ordered


def find_spans(
    rows: Iterable[tuple[str, Any, Any, Any, str | None]], unit: str, raw: bool
) -> Iterator[Use]:
    """
    The use at each span. `rows`: what errors call a row, its sentence, the start and the end of the
    span, and its word, by default its tokens. See `Elmo.embed_spans` for `unit`, `raw` and errors.
    """
    check_choice("unit", unit, UNITS)
    n_cut, example = 0, ""
    for number, (name, sentence, start, end, word) in enumerate(rows):
        text, row = _with_spans(name, sentence, raw)
        spans = row.spans or []
        size = len(text if unit == "characters" else spans)
        if not (isinstance(start, WHOLE) and isinstance(end, WHOLE) and 0 <= start < end <= size):
            expected = f"a span of {unit} from a start to an end, of 0 to {size}"
            fail(name, expected, (start, end))
        inside: Sequence[int] = range(start, end)
        if unit == "characters":
            inside = [k for k, (a, b) in enumerate(spans) if a < end and start < b]
            if not inside:
                fail(name, "a span with a token", text[start:end])
            first, last = spans[inside[0]][0], spans[inside[-1]][1]
            if first < start or end < last:
                n_cut += 1
                example = example or f"{text[start:end]!r} of {text[first:last]!r} in {name}"
        yield _use(name, row, inside[0], inside[-1] + 1, number, word)
    if n_cut:
        logger.warning(
            f"spans that start or end within a token: {n_cut:,}, such as {example}; their vectors "
            "are those of the whole tokens; raw=True, or --raw of the command, splits English text "
            "into tokens"
        )


def _with_spans(name: str, sentence: Any, raw: bool) -> tuple[str, Row]:
    """The text of a sentence, and its tokens with their places in it."""
    row = row_of(name, sentence, raw)
    is_text = isinstance(sentence, str)
    text = sentence if is_text else " ".join(row.tokens)
    if row.spans is None:
        tokens = re.finditer(r"\S+" if is_text else "[^ ]+", text)
        row = row._replace(spans=[token.span() for token in tokens])
    return text, row


def _use(name: str, row: Row, first: int, end: int, number: int, word: str | None) -> Use:
    """The use that consists of the tokens `first` to `end` of a row."""
    of_sentence = row.sentence or [0] * len(row.tokens)
    in_row = of_sentence[first]
    token = " ".join(row.tokens[first:end])
    if of_sentence[end - 1] != in_row:
        raise InputError(f"{name}: expected a span in one sentence, found {token!r} in several")
    text = " ".join(x for x, own in zip(row.tokens, of_sentence) if own == in_row)
    position = first - of_sentence.index(in_row)
    return Use(word or token, token, "", number, position, text, in_row, number)
