"""What `Elmo.embed` takes for sentences, and what it refuses."""

import re

import numpy
import pytest

from elmo_plugin.elmo import Elmo


@pytest.fixture(scope="module")
def elmo(bilm_files) -> Elmo:
    return Elmo.from_files(*bilm_files)


@pytest.mark.parametrize(
    "sentences, message",
    [
        (None, "expected a sentence, its tokens in a list, or a list of such lists, found None"),
        (3, "expected a sentence, its tokens in a list, or a list of such lists, found 3"),
        ({"A": 1}, "or a list of such lists, found {'A': 1}"),
        ([["A"], None], "sentence 1: expected a list of tokens, found None"),
        ([["A", 3]], "sentence 0: expected tokens that are strings, found 3"),
        (["A", None], "found a string and None in one"),
    ],
)
def test_what_is_no_sentence(elmo, sentences, message):
    """By hand: what was expected, what was found, and where."""
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        elmo.embed(sentences)


@pytest.mark.parametrize("form", [tuple, iter, numpy.array])
def test_other_sequences_are_lists(elmo, form):
    """Expected: what a list of the same tokens gives."""
    tokens = ["The", "dog", "."]
    expected = elmo.embed(tokens)
    assert expected.shape == (3, 16)
    assert numpy.array_equal(elmo.embed(form(tokens)), expected)
    assert numpy.array_equal(elmo.embed([form(tokens)])[0], expected)
