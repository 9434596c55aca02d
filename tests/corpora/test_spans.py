"""
Vectors of words and phrases that are given by their places. The oracle is `Elmo.embed` of one
sentence at a time and NumPy's mean; places in strings are found by `str.find`.
"""

import math
import sys
from functools import partial
from random import Random

import numpy as np
import pandas
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.text.raw_text import split_text
from tests import compare
from tests.conftest import Said

WORDS = "We like ice cream and caf\u00e9 sorbet , x\u2019y \U0001f600 .".split(" ")
"""None is a part of another, so that a phrase has one place."""

assert_close = partial(compare.assert_close, what="vectors of spans")


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained("tiny", scalar_mix_parameters=[0.2, 1, -0.5])


def random_spans(random: Random, n: int) -> list[tuple[list[str], int, int]]:
    """Sentences without repeated words, and a span of tokens in each."""
    spans = []
    for _ in range(n):
        tokens = random.sample(WORDS, random.randrange(1, len(WORDS)))
        start = random.randrange(len(tokens))
        spans.append((tokens, start, random.randrange(start, len(tokens)) + 1))
    return spans


@pytest.mark.parametrize("layer", ["mix", "top", "average", 0, "all"])
def test_spans(elmo: Elmo, layer: str | int) -> None:
    """Places in tokens, and in characters of strings and of lists, have the same vectors. They are
    also columns of a DataFrame, whose labels are not the numbers of its rows."""
    spans = random_spans(Random(0), 30)
    expected = np.stack([elmo.embed(x, layer)[..., a:b, :].mean(-2) for x, a, b in spans])
    data = pandas.DataFrame(spans, columns=["tokens", "start", "end"], index=range(90, 120))
    found = elmo.embed_spans(data["tokens"], data["start"], data["end"], layer, unit="tokens")
    assert found.dtype == np.float32 and found.shape == expected.shape
    assert_close(found, expected, atol=1e-5)
    for space in (" ", "\u00a0 "):
        texts = data["tokens"] if space == " " else [f" {space.join(x)}\t" for x, _, _ in spans]
        strings = [x if isinstance(x, str) else " ".join(x) for x in texts]
        phrases = [space.join(x[a:b]) for x, a, b in spans]
        starts = np.array([text.find(phrase) for text, phrase in zip(strings, phrases)])
        found = elmo.embed_spans(texts, starts, starts + [*map(len, phrases)], layer)
        assert_close(found, expected, atol=1e-5)


def test_columns_of_polars(elmo: Elmo) -> None:
    polars = pytest.importorskip("polars")
    data = polars.DataFrame({"text": ["We like it", "I do"], "start": [3, 0], "end": [7, 1]})
    found = elmo.embed_spans(data["text"], data["start"], data["end"])
    expected = elmo.embed_spans(["We like it", "I do"], [3, 0], [7, 1])
    assert np.array_equal(found, expected)


TEXT = "She isn\u2019t \u201chere\u201d. My mother-in-law\u2019s dog cannot swim!"
TOKENS = [
    ["She", "is", "n't", '"', "here", '"', "."],
    ["My", "mother-in-law", "'s", "dog", "cannot", "swim", "!"],
]


@pytest.mark.parametrize(
    ("phrase", "row", "places"),
    [
        ("isn\u2019t", 0, [1, 2]),
        ("n\u2019t", 0, [2]),
        ("here", 0, [4]),
        ("\u201chere\u201d", 0, [3, 4, 5]),
        ("mother-in-law", 1, [1]),
        ("My mother-in-law\u2019s dog ", 1, [0, 1, 2, 3]),
    ],
)
def test_raw_text(elmo: Elmo, phrase: str, row: int, places: list[int]) -> None:
    """The tokens are written by hand. The sentences of a string are read apart."""
    expected = elmo.embed(TOKENS[row], "top")[places].mean(0)
    start = TEXT.find(phrase)
    found = elmo.embed_spans([TEXT], [start], [start + len(phrase)], raw=True)
    assert_close(found[0], expected, atol=1e-5)
    first = places[0] + row * len(TOKENS[0])
    found = elmo.embed_spans([TEXT], [first], [first + len(places)], unit="tokens", raw=True)
    assert_close(found[0], expected, atol=1e-5)


def test_a_span_that_cuts_a_token(elmo: Elmo, said: Said) -> None:
    """By hand: *law* is a part of the token, and *'s d* of two; a warning counts them."""
    starts = [TEXT.find(part) for part in ("law", "\u2019s d", "dog")]
    found = elmo.embed_spans([TEXT] * 3, starts, np.add(starts, [3, 4, 3]), raw=True)
    (warning,) = said()
    assert warning.startswith(
        "2 of 3 spans start or end within a token, such as 'law' of 'mother-in-law' in sentence 0, "
    )
    assert warning.endswith("their vectors or sums are those of the whole tokens")
    vectors = elmo.embed(TOKENS[1], "top")
    assert_close(found, [vectors[1], vectors[2:4].mean(0), vectors[3]], atol=1e-5)


def test_equal_sentences_are_read_once(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: of three different sentences, one is given as a list and as a string."""
    rows: list = []
    embed = Elmo.embed_rows
    spy = lambda self, x, **options: rows.extend(x) or embed(self, x, **options)  # noqa: E731
    monkeypatch.setattr(Elmo, "embed_rows", spy)
    texts = ["a b", ["a", "b"], "b a", "a  b", "b"]
    found = elmo.embed_spans(texts, [0, 1, 0, 1, 0], [1, 2, 1, 2, 1], unit="tokens")
    assert [x.tokens for row in rows for x in row] == [["a", "b"], ["b"], ["b", "a"]]
    assert np.array_equal(found[1], found[3]) and not np.array_equal(found[0], found[1])


def test_a_text_is_split_once(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Property: the vectors of spans in mixed order are those of each text alone, and each of two
    texts is split once."""
    texts = [TEXT, "The dog left.", TEXT, "The dog left.", TEXT]
    phrases = ["here", "dog", "dog", "left", "She"]
    starts = [text.find(phrase) for text, phrase in zip(texts, phrases)]
    ends = np.add(starts, [*map(len, phrases)])
    alone = [elmo.embed_spans([x], [a], [b], raw=True)[0] for x, a, b in zip(texts, starts, ends)]
    calls: list[str] = []
    spy = lambda text, **place: calls.append(text) or split_text(text, **place)  # noqa: E731
    monkeypatch.setattr("elmo_plugin.text.forms.split_text", spy)
    assert_close(elmo.embed_spans(texts, starts, ends, raw=True), np.stack(alone), atol=1e-5)
    assert sorted(calls) == sorted(set(texts))


def test_no_spans(elmo: Elmo) -> None:
    assert elmo.embed_spans([], [], []).shape == (0, elmo.output_dim)
    assert elmo.embed_spans([], [], [], "all").shape == (0, 3, elmo.output_dim)


SENTENCE = "The dog ran ."


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([SENTENCE] * 2, [0, 4], [3, 4]), {}, "^sentence 1: expected a span with a token, .* ''$"),
        (([SENTENCE], [3], [4]), {}, "^sentence 0: expected a span with a token, found ' '$"),
        (([SENTENCE], [5], [4]), {}, r"^sentence 0: .* found \(5, 4\)$"),
        (([SENTENCE], [-1], [4]), {}, r"^sentence 0: .* found \(-1, 4\)$"),
        (([SENTENCE], [11], [14]), {}, r"^sentence 0: .* found \(11, 14\)$"),
        (([SENTENCE], [3], [5]), {"unit": "tokens"}, r"^sentence 0: .* of tokens, .*\(3, 5\)$"),
        (([""], [0], [0]), {}, "^sentence 0: expected a span with a token, found ''$"),
        (([SENTENCE], [0.5], [3]), {}, r"^sentence 0: .* found \(0.5, 3\)$"),
        (([SENTENCE], [0], [math.inf]), {}, r"^sentence 0: .* found \(0, inf\)$"),
        (([SENTENCE], ["0"], ["3"]), {}, r"^sentence 0: .* found \('0', '3'\)$"),
        (([SENTENCE], [0, 4], [3]), {}, "^start: expected 1 numbers, .*, found 2$"),
        (([SENTENCE], 0, [3]), {}, "^start: expected a list of numbers, found 0$"),
        ((SENTENCE, [0], [3]), {}, "^expected sentences, found 'The dog ran .'$"),
        (([None], [0], [3]), {}, "^sentence 0: expected a sentence or a list of its tokens"),
        (([SENTENCE], [0], [3]), {"unit": "words"}, "^unit of the spans: .* 'characters', 'tok"),
        (([SENTENCE], [0], [3], 9), {}, "^layer: expected mix, all, average, top or a number"),
        (([SENTENCE], [0], [3]), {"raw": 1}, "^raw: expected true or false, found 1$"),
        ((["He ran. She left."], [3], [11]), {"raw": True}, "^sentence 0: .* 'ran . She' in sev"),
    ],
)
def test_wrong_spans(elmo: Elmo, arguments: tuple, options: dict, message: str) -> None:
    """By definition: the error names the row of a Series by its label, and others by number."""
    with pytest.raises(InputError, match=message):
        elmo.embed_spans(*arguments, **options)
    if message.startswith("^sentence 0"):
        with pytest.raises(InputError, match=message.replace("sentence 0", "row 'x'")):
            texts = pandas.Series(arguments[0], index=["x"])
            elmo.embed_spans(texts, *arguments[1:], **options)


def test_a_missing_place(elmo: Elmo) -> None:
    """By definition: the error names the row with the missing place. The others are whole floats,
    as pandas makes all numbers of such a column, and have the vectors of integers."""
    data = pandas.DataFrame({"start": [4, None, 0], "end": [7, 3, 3]}, index=[10, 20, 30])
    with pytest.raises(InputError, match=r"^row 20: expected whole .* found \(nan, 3"):
        elmo.embed_spans(pandas.Series(SENTENCE, data.index), data["start"], data["end"])
    known = data.dropna()
    found = elmo.embed_spans([SENTENCE] * 2, known["start"], known["end"])
    assert np.array_equal(found, elmo.embed_spans([SENTENCE] * 2, [4, 0], [7, 3]))


def test_a_state_that_is_carried() -> None:
    elmo = Elmo.from_pretrained("tiny", initial_state="carry")
    with pytest.raises(InputError, match=r"^initial_state: expected zero or warm, .* 'carry'$"):
        elmo.embed_spans(["a"], [0], [1])


def test_without_pandas(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert elmo.embed_spans(["a b"], [2], [3]).shape == (1, elmo.output_dim)
