"""These tests compare the sentences that are accepted as names of datasets with HDF5 itself."""

import h5py
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.dump import Sentence
from elmo_plugin.elmo.sentence_keys import check_sentence_keys


def numbered(texts: list[str]) -> list[Sentence]:
    return [Sentence(line, text) for line, text in enumerate(texts)]


@settings(max_examples=300, deadline=None)
@example(["a / b", "a", "a /b"])
@given(st.lists(st.text("ab/. ", min_size=1, max_size=6), min_size=1, max_size=5, unique=True))
def test_names_that_hdf5_cannot_have_are_refused(texts):
    """The oracle is HDF5, which makes the datasets one after the other."""
    refused = None
    with h5py.File.in_memory() as part, h5py.File.in_memory() as joined:
        part["0"] = 0
        for line, text in enumerate(texts):
            try:
                part.copy("0", joined, name=text)
            except (RuntimeError, ValueError):
                refused = line
                break
    if refused is None:
        assert check_sentence_keys(numbered(texts), "text") == numbered(texts)
    else:
        with pytest.raises(InputError, match=rf"^text, line {refused + 1}: "):
            check_sentence_keys(numbered(texts), "text")


@pytest.mark.parametrize(
    "texts, message",
    [
        (["x", "a/b", "a"], "text, line 3: 'a': HDF5 cannot"),
        (["a", "x", "a/b"], "text, line 3: 'a/b': HDF5 cannot"),
        (["a//b", "a/./b"], "text, line 2: 'a/./b': HDF5 cannot"),
        (["x", "/"], "text, line 2: '/': HDF5 cannot have a dataset of this name"),
        (["a\0b"], r"text, line 1: 'a\\x00b': HDF5 cannot have a dataset of this name"),
    ],
)
def test_the_sentence_is_named(texts, message):
    """The message names the line. HDF5 would cut the last name at its NUL without an error."""
    with pytest.raises(InputError, match=message):
        check_sentence_keys(numbered(texts), "text")


def test_equal_sentences_share_a_name():
    """Equal sentences do not conflict."""
    sentences = numbered(["a/b", "c", "a/b"])
    assert check_sentence_keys(iter(sentences), "text") == sentences
