"""These tests check the n-gram baselines. Expected values are computed by hand, or by the formula
in plain Python."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.ngrams import KneserNeyBigram, perplexities

S, E, UNK, A, B, C = range(6)  # <S> </S> <UNK> and three words
N_WORDS = 6

sentences = st.lists(
    st.lists(st.integers(UNK, C), min_size=1, max_size=6).map(lambda ws: np.array([S, *ws, E])),
    min_size=1,
    max_size=8,
)


def test_bigram_by_hand():
    """
    Sentences "a b", "a c", "a b": the pairs (<S> a) 3, (a b) 2, (a c) 1, (b </S>) 2, (c </S>) 1.
    n_1 = 2, n_2 = 2, d = 2 / 6 = 1/3. Behind a: 3 times 2 different words.
    5 different pairs end in a (1), b (1), c (1), </S> (2); p_1(b) = (1 - d) / 5 + rest / 6, where
    the rest is 1 - (5 - 4 d) / 5 = 4 d / 5 = 4/15.
    """
    model = KneserNeyBigram([np.array([S, A, w, E]) for w in (B, C, B)], N_WORDS)
    p_1 = {B: (2 / 3) / 5 + 4 / 15 / 6, E: (5 / 3) / 5 + 4 / 15 / 6, UNK: 4 / 15 / 6}
    back_off = (1 / 3) * 2 / 3
    expected = [
        (2 - 1 / 3) / 3 + back_off * p_1[B],  # seen twice
        (1 - 1 / 3) / 3 + back_off * p_1[B],  # seen once; c is as frequent as b in p_1
        back_off * p_1[E],  # never seen behind a
        p_1[UNK],  # nothing was ever seen behind <UNK>
    ]
    found = model.probabilities(np.array([A, A, A, UNK]), np.array([B, C, E, UNK]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(sentences)
def test_probabilities_sum_to_one(train):
    """After any word, seen or not, the probabilities sum to one and none of them is 0."""
    model = KneserNeyBigram(train, N_WORDS)
    words = np.arange(N_WORDS)
    for before in words:
        p = model.probabilities(np.full(N_WORDS, before), words)
        assert p.min() > 0
        assert p.sum() == pytest.approx(1, abs=1e-12)


@given(sentences, sentences)
def test_perplexities_by_the_formula(train, heldout):
    """The expected values are the same sums, computed word by word in plain Python."""
    counts = Counter(int(word) for s in train for word in s[1:])
    total = sum(counts.values()) + N_WORDS
    log_p = [np.log((counts[int(word)] + 1) / total) for s in heldout for word in s[1:]]
    found = perplexities(train, heldout, N_WORDS)
    assert found["unigram"] == pytest.approx(np.exp(-np.mean(log_p)))

    model = KneserNeyBigram(train, N_WORDS)
    log_p = [
        np.log(model.probabilities(np.array([v]), np.array([w]))[0])
        for s in heldout
        for v, w in pairwise(s)
    ]
    assert found["forward_bigram"] == pytest.approx(np.exp(-np.mean(log_p)))


@given(sentences, sentences)
def test_backward_is_forward_of_the_reversed_text(train, heldout):
    """Reversing every sentence exchanges the directions."""
    found = perplexities(train, heldout, N_WORDS)
    turned = perplexities([s[::-1] for s in train], [s[::-1] for s in heldout], N_WORDS)
    assert turned["forward_bigram"] == pytest.approx(found["backward_bigram"])
    assert turned["backward_bigram"] == pytest.approx(found["forward_bigram"])
