"""These tests check the forms of sentences that `Elmo.embed` takes, and the errors for others."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from elmo_plugin.elmo.elmo import Elmo


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
def test_values_that_are_not_sentences(elmo, sentences, message):
    """The message has the expected and the found value, and its place."""
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        elmo.embed(sentences)


@pytest.mark.parametrize("form", [tuple, iter, numpy.array])
def test_other_sequences_are_lists(elmo, form):
    """The expected vectors are those of a list of the same tokens."""
    tokens = ["The", "dog", "."]
    expected = elmo.embed(tokens)
    assert expected.shape == (3, 16)
    assert numpy.array_equal(elmo.embed(form(tokens)), expected)
    assert numpy.array_equal(elmo.embed([form(tokens)])[0], expected)


def test_threads_leave_the_mode_alone(bilm_files):
    """A model that is being trained stays in training mode while other threads embed with it, and
    its own dropout does not change their vectors."""
    elmo = Elmo.from_files(*bilm_files, dropout=0.5, requires_grad=True)
    expected = elmo.eval().embed("The dog .")
    elmo.train()
    modes = []
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(elmo.embed, ["The dog ."] * 40):
            modes.append(elmo.training)
            numpy.testing.assert_array_equal(found, expected)
    assert elmo.training and all(modes)


@pytest.mark.parametrize("layer", ["bottom", 3, -1, True, None, 1.0])
def test_a_refused_call_moves_no_state(bilm_files, layer):
    """Under `carry` a vector depends on earlier sentences, but not on those of a failed call."""
    elmo, other = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    expected = [other.embed("The dog ."), other.embed("The dog .")]
    found = [elmo.embed("The dog .")]
    with pytest.raises(ValueError, match=r"layer: expected mix, all, .* below 3, found"):
        elmo.embed("He threw it .", layer=layer)
    found.append(elmo.embed("The dog ."))
    numpy.testing.assert_array_equal(found, expected)
