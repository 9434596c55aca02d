import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_plugin.modules import token_encoder
from elmo_plugin.modules.token_encoder import unique_words
from tests.oracle import characters

TOKEN = st.sampled_from(["a", "b", "ab", "ba", "", "the", "🙂", "aaaaaaaa", "\0"])


@settings(deadline=None)
@given(st.lists(st.lists(TOKEN, min_size=3, max_size=3), min_size=1, max_size=5), st.booleans())
def test_each_word_once_and_every_token_found(rows, as_int16):
    """The words, looked up by the tokens' indices, are the tokens, and their number is that of the
    different strings."""
    dtype = torch.int16 if as_int16 else torch.long
    tokens = torch.tensor([[characters(word, 10) for word in row] for row in rows], dtype=dtype)
    words, indices = unique_words(tokens)
    assert words.dtype == dtype and indices.shape == tokens.shape[:2]
    assert torch.equal(words[indices], tokens)
    assert len(words) == len({word for row in rows for word in row})


def test_words_with_one_key_stay_apart(monkeypatch):
    """Words whose keys are equal (here all keys are) are still distinguished."""
    monkeypatch.setattr(token_encoder, "hash_weights", lambda n: torch.zeros(n, dtype=torch.long))
    tokens = torch.tensor([[[1, 2], [3, 4]], [[1, 2], [1, 4]]])
    words, indices = unique_words(tokens)
    assert torch.equal(words[indices], tokens)
    assert len(words) == 3


@pytest.mark.parametrize("shape", [(0, 3, 10), (2, 0, 10)])
def test_no_tokens_are_no_words(shape):
    """The shapes are those of any batch."""
    words, indices = unique_words(torch.zeros(shape, dtype=torch.long))
    assert words.shape == (0, 10)
    assert indices.shape == shape[:2]
