"""
The type of the input decides what is a sentence. The expected values of every call are those for
plain lists of lists of tokens, or for a single string.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pandas
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
from elmo_plugin.checks import InputError
from elmo_plugin.modules import SampledSoftmax
from elmo_plugin.text.forms import is_table
from elmo_plugin.text.raw_text import running_text, split_text
from tests.conftest import Said
from tests.random_bilm import random_bilm, randomize

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "ran", "."]
TEXTS = [[], ["dog"], ["dog ran ."], ["dog", "the", "."], ["the dog", "ran", "the dog ran ."]]
"""Of 0, 1 and 3 rows, without and with whitespace."""


def package(name: str) -> Any:
    return pytest.importorskip(name)


def of_datasets(texts: list[str]) -> Any:
    pytest.importorskip("datasets")
    return import_module("datasets").Dataset.from_dict({"text": texts})["text"]


COLUMNS: dict[str, Callable[[list[str]], Any]] = {
    "Series": lambda texts: pandas.Series(texts, dtype=str),
    "Series of objects": lambda texts: pandas.Series(texts, dtype=object),
    "Index": lambda texts: pandas.Index(texts, dtype=object),
    "array of Arrow": lambda texts: pandas.Series(texts, dtype="string[pyarrow]").array,
    "array of objects": lambda texts: pandas.Series(texts, dtype=object).array,
    "Categorical": lambda texts: pandas.Categorical(texts),
    "Arrow": lambda texts: package("pyarrow").array(texts, "string"),
    "Arrow in chunks": lambda texts: package("pyarrow").chunked_array([texts], "large_string"),
    "Arrow dictionary": lambda texts: package("pyarrow").array(texts, "str").dictionary_encode(),
    "datasets": of_datasets,
    "polars": lambda texts: package("polars").Series(texts, dtype=package("polars").String),
}
"""Each string is a sentence."""

EITHER: dict[str, Callable[[list[str]], Any]] = {
    "NumPy": lambda texts: np.array(texts, dtype=str),
    "NumPy objects": lambda texts: np.array(texts, dtype=object),
    "generator": lambda texts: (text for text in texts),
    "deque": deque,
    "values": lambda texts: dict(enumerate(texts)).values(),
}
"""Each string is a sentence if one contains whitespace."""

LISTS: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "strings of NumPy": lambda texts: list(np.array(texts, dtype=str)),
}
"""Each string is a token."""


@pytest.fixture(scope="module")
def elmo(bilm_archive: str) -> Elmo:
    return Elmo.from_archive(bilm_archive)


@pytest.fixture(scope="module")
def calls(elmo: Elmo, bilm_archive: str) -> dict[str, Callable[..., Any]]:
    """What reads one sentence or several, and then what always reads several."""
    softmax = SampledSoftmax(n_words=len(WORDS), dim=5, n_negative_samples=None)
    randomize(softmax)
    model = LanguageModel(random_bilm().bilm, softmax, WORDS)
    vectors = ElmoVectors(bilm_archive).fit(["a"])
    warming = Elmo.from_archive(bilm_archive)

    def warmed_up(sentences: Any, **raw: bool) -> np.ndarray:
        warming.warm_up(sentences, **raw)
        return warming.bilm.warm_state.output.numpy().copy()

    return {
        "embed": elmo.embed,
        "characters": lambda x, **raw: elmo.characters(x, **raw).numpy(),
        "score": lambda x, **raw: scores(model.score(x, **raw)),
        "perplexity": lambda x, **raw: list(model.perplexity(x, **raw).values()),
        "substitutes": lambda x, **raw: words(model.substitutes(x, k=2, **raw)),
        "warm_up": warmed_up,
        "stream": lambda x, **raw: list(elmo.stream(x, **raw)),
        "uses": lambda x, **raw: list(elmo.uses(x, ["dog"], **raw)["vector"]),
        "ElmoVectors": lambda x, raw=False: vectors.set_params(raw=raw).transform(x),
    }


ROWS_ONLY = ("stream", "uses", "ElmoVectors")


def scores(found: Any) -> Any:
    return [scores(x) for x in found] if isinstance(found, list) else [found.forward]


def words(found: Any) -> Any:
    return [words(x) for x in found] if isinstance(found, list) else found.probability


def outcome(call: Callable[[Any], Any], sentences: Any) -> Any:
    """The result, or what the error says without the value that it found."""
    try:
        return call(sentences)
    except InputError as error:
        return str(error).partition(", found")[0]


def assert_equal(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            assert_equal(x, y)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, atol=1e-6)


CALLS = ("embed", "characters", "score", "perplexity", "substitutes", "warm_up", *ROWS_ONLY)


@pytest.mark.sampled(57)
@pytest.mark.parametrize("kind", [*COLUMNS, *EITHER, *LISTS])
@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_every_type(calls: dict, name: str, kind: str) -> None:
    """By the rules: a column has a sentence in each row, also one and one of a single word; a list
    of strings is one sentence; and what may be either is refused if no string has whitespace. The
    calls that read one sentence or several give a single result for one. Raw text of every type has
    a sentence in each row."""
    pytest.importorskip("nltk")
    pytest.importorskip("nupunkt")
    make = (COLUMNS | EITHER | LISTS)[kind]
    for texts in TEXTS:
        rows = [text.split() for text in texts]
        has_spaces = any(" " in text for text in texts)
        found, expected = outcome(calls[name], make(texts)), outcome(calls[name], rows)
        assert_equal(outcome(partial(calls[name], raw=True), make(texts)), expected)
        if kind in COLUMNS or name in ROWS_ONLY or not texts or (kind in EITHER and has_spaces):
            assert_equal(found, expected)
        elif kind in EITHER:
            assert found == "expected sentences or the tokens of one"
        elif has_spaces:
            assert found == "one sentence: expected tokens, which are strings without spaces"
        else:
            assert_equal(found, outcome(calls[name], " ".join(texts)))


@pytest.mark.parametrize("name", CALLS[:5])
def test_a_single_sentence(calls: dict, name: str) -> None:
    """Property: the result is that of a list of it, without the list."""
    call = calls[name]
    several = call([["dog", "ran"]])
    expected = several if name in ("characters", "perplexity") else several[0]
    for one in ("dog  ran", ["dog", "ran"], ("dog", "ran"), np.str_("dog ran")):
        assert_equal(call(one), expected)


@pytest.mark.parametrize("name", CALLS)
def test_sentences_of_running_text(calls: dict, name: str) -> None:
    """By definition: the sentences of a reader are those of their tokens in lists, in a list or one
    by one, also where the rest is raw text; a single one is a single sentence; and the rows of raw
    text are lists of sentences, which have one result each."""
    pytest.importorskip("nltk")
    pytest.importorskip("nupunkt")
    read = list(running_text("The dog\nran. It was\nold!\n\nA dog."))
    expected = outcome(calls[name], [x.tokens for x in read])
    assert [len(x.tokens) for x in read] == [4, 4, 3]
    for given in (read, [[x] for x in read]):
        assert_equal(outcome(calls[name], given), expected)
        assert_equal(outcome(partial(calls[name], raw=True), given), expected)
    if name in CALLS[:5]:
        assert_equal(calls[name](read[0]), calls[name](read[0].tokens))
    if name != "ElmoVectors":
        assert_equal(outcome(calls[name], iter(read)), expected)
    raw = ["The dog ran. It left.", "A dog."]
    if name not in ("characters", "warm_up", "ElmoVectors"):
        rows = [split_text(text) for text in raw]
        assert_equal(calls[name](rows), outcome(partial(calls[name], raw=True), raw))


def lists_of_tokens() -> Iterator[Any]:
    rows = [["the", "dog"], ["ran", "."]]
    yield from (rows, tuple(map(tuple, rows)), map(iter, rows), np.array(rows), deque(rows))
    yield from (pandas.Series(rows), pandas.Series(map(np.array, rows)), pandas.Series(rows).array)
    for name, make in (("pyarrow", "array"), ("polars", "Series")):
        try:
            yield getattr(import_module(name), make)(rows)
        except ModuleNotFoundError:
            pass


def test_items_that_are_lists(calls: dict) -> None:
    """By definition: a list of tokens in a row of any type is a sentence. To scikit-learn, an array
    of two dimensions is a table."""
    for name in CALLS:
        expected = calls[name]([["the", "dog"], ["ran", "."]])
        for given in lists_of_tokens():
            if name != "ElmoVectors" or getattr(given, "ndim", 1) == 1:
                assert_equal(calls[name](given), expected)


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT])
@pytest.mark.parametrize("name", CALLS)
def test_missing_values(calls: dict, name: str, missing: Any) -> None:
    """The message names the row, by its label in a Series."""
    texts = ["dog", missing]
    given = [pandas.Series(texts, dtype=object, index=[3, 7]), pandas.Index(texts, dtype=object)]
    given += [pandas.Series(texts, dtype=object).array, np.array(texts, dtype=object)]
    if missing is None:
        given += [package("pyarrow").array(texts)]
    for column in given:
        row = "row 7" if isinstance(column, pandas.Series) else "sentence 1"
        with pytest.raises(InputError, match=f"^{row}: expected a sentence"):
            calls[name](column)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_column(calls: dict, name: str) -> None:
    """By definition: a table is not one of its columns, and a scalar has no rows."""
    columns = {"text": ["the dog", "ran"], "year": ["1850", "1990"]}
    for table in (pandas.DataFrame(columns), package("pyarrow").table(columns)):
        with pytest.raises(InputError, match=r"one (of its )?column"):
            calls[name](table)
    for scalar in (np.array("the dog"), package("pyarrow").array([["dog"]])[0]):
        with pytest.raises(InputError, match=r"^expected .*senten"):
            calls[name](scalar)


def test_tables_and_arrays(elmo: Elmo) -> None:
    """A label of a Series is an attribute of it, but not of its type. The words of `uses` are not
    the names of columns either. The message about an array of words names both spellings."""
    with pytest.raises(InputError, match=r"^words: expected a list of words"):
        elmo.uses(["a dog"], pandas.DataFrame({"dog": ["cat"]}))
    assert elmo.uses(["a dog"], ["dog"])["sentence_in_row"].tolist() == [0]
    assert not is_table(pandas.Series(["a"], index=["columns"]))
    assert is_table(package("datasets").Dataset.from_dict({"a": ["b"]}))
    spellings = re.escape("list(x) for the tokens of one sentence, [s.split() for s in x] for")
    with pytest.raises(InputError, match=f"^expected sentences or the tokens .*{spellings}"):
        elmo.embed(np.array(["the", "dog"]))


def test_words_in_a_list(elmo: Elmo, said: Said) -> None:
    """One warning for each call, if a list of at least two strings has no whitespace: it is
    probably the tokens of a sentence, and is read as sentences."""

    def n_warnings(sentences: Any) -> list[int]:
        counts = []
        for call in (lambda x: list(elmo.stream(x)), lambda x: elmo.uses(x, ["dog"])):
            call(sentences)
            messages = said()
            counts.append(len(messages))
            assert all("are read as sentences of one word" in x for x in messages)
        return counts

    assert n_warnings(["the", "dog"]) == n_warnings(("the",) * 9) == [1, 1]
    for silent in (["the"], ["the dog", "ran"], [["the"], ["dog"]], [], pandas.Series(["a", "b"])):
        assert n_warnings(silent) == [0, 0]
