"""These tests compare each architecture that an options file can describe with the NumPy oracle."""

import numpy as np
import pytest
import torch

from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.token_encoder import rounded_up
from elmo_plugin.text.characters import words_to_characters
from tests import oracle
from tests.compare import assert_close
from tests.random_bilm import arrays_of, oracle_state, random_bilm, random_state, read_sentences

SENTENCES = [["naïve", "🙂", "a", "the", "the", ""], ["incomprehensibilities"], ["the", "dog", "a"]]

VARIANTS = {
    "elmo": ({}, {}),
    "tanh": ({}, {"activation": "tanh"}),
    "no_highway": ({}, {"n_highway": 0}),
    "two_highways": ({}, {"n_highway": 2}),
    "no_projection_in_the_cnn": ({"projection_dim": 8}, {}),  # F = 3 + 3 + 2
    "no_projection_in_the_lstm": ({"dim": 5}, {}),
    "no_projection_at_all": ({"dim": 8, "projection_dim": 8}, {}),
    "no_clips": ({"cell_clip": None, "proj_clip": None}, {}),
    "clips_of_zero": ({"cell_clip": 0, "proj_clip": 0.0}, {}),
    "cell_clip_alone": ({"proj_clip": None}, {}),
    "proj_clip_alone": ({"cell_clip": None}, {}),
    "tiny_clips": ({"cell_clip": 0.02, "proj_clip": 0.01}, {}),
    "one_layer": ({"n_layers": 1}, {}),
    "three_layers": ({"n_layers": 3}, {}),
    "no_residual": ({"n_layers": 3, "use_skip_connections": False}, {}),
    "one_filter_of_the_longest_width": ({}, {"filters": [[10, 6]]}),
    "three_characters": ({}, {"max_characters_per_token": 3, "filters": [[1, 4], [3, 4]]}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_sentences_are_the_oracles(variant, tmp_path):
    """The oracle reads each sentence alone, with the arrays of the weight file and from a random
    initial state. Compared are every layer, the boundaries and the state after the sentence, within
    1e-12 in float64 and within the promised 1e-5 in float32."""
    bilm, options = random_bilm(*VARIANTS[variant])
    arrays = arrays_of(bilm, tmp_path)
    before = random_state(bilm, len(SENTENCES))
    tokens = _batch(bilm)
    for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        bilm.to(dtype)
        with torch.no_grad():
            layers, after = read_sentences(bilm, tokens, LSTMState(*(x.to(dtype) for x in before)))
        for row, sentence in enumerate(SENTENCES):
            bounded = ["<S>", *sentence, "</S>"]
            expected, state = oracle.sentence(arrays, options, bounded, oracle_state(before, row))
            n = len(bounded)
            assert len(layers) == len(expected)
            for k, (found, h) in enumerate(zip(layers, expected)):
                assert_close(found[row, :n], h, atol=atol, what=f"layer {k} of row {row}, {dtype}")
                assert not found[row, n:].any()
            for key, (c, h) in oracle_state(after, row).items():
                assert_close(c, state[key][0], atol=atol, what=f"c {key} of row {row}, {dtype}")
                assert_close(h, state[key][1], atol=atol, what=f"h {key} of row {row}, {dtype}")


@pytest.mark.parametrize("variant", ["elmo", "no_residual"])
def test_streams_are_the_oracles(variant, tmp_path):
    """The oracle reads each row of two windows of running text, with its state carried from the
    first to the second."""
    bilm, options = random_bilm(*VARIANTS[variant])
    arrays = arrays_of(bilm, tmp_path)
    bilm.double()
    words = ["<S>", "</S>", "the", "dog", "naïve", "🙂"]
    vectors = np.array([oracle.word_vector(arrays, options, word) for word in words])
    given = torch.from_numpy(words_to_characters(words, 10))
    state = random_state(bilm, n_rows=3)
    expected_states = [oracle_state(state, row) for row in range(3)]
    random = np.random.default_rng(0)
    for window in range(2):
        inputs = random.integers(0, len(words), size=(2, 3, 4))  # direction, row, step
        with torch.no_grad():
            layers, state = bilm(given, *torch.from_numpy(inputs), state)
        for row in range(3):
            for d in (0, 1):
                expected, expected_states[row] = oracle.stream(
                    arrays, options, d, vectors[inputs[d, row]], expected_states[row]
                )
                for k, (found, y) in enumerate(zip(layers[1:], expected, strict=True)):
                    what = f"window {window}, row {row}, direction {d}, layer {k + 1}"
                    assert_close(found[d, :, row], y, atol=1e-12, what=what)


def test_tiny_clips_bite():
    """A clip keeps every number within its bounds. Some numbers equal them, because
    otherwise the variants above would not test clips."""
    bilm, _ = random_bilm(*VARIANTS["tiny_clips"])
    _, after = read_sentences(bilm, _batch(bilm), bilm.bilstm.zero_state(len(SENTENCES)))
    for found, bound in ((after.cell, 0.02), (after.hidden, 0.01)):
        assert found.abs().max() == torch.tensor(bound)


def test_each_distinct_word_is_encoded_once():
    """Counted by hand, the two boundaries included. The first words are repeated up to a size of
    `rounded_up`."""
    bilm, _ = random_bilm()
    tokens = _batch(bilm)
    asked = []
    bilm.token_encoder.register_forward_pre_hook(lambda _, inputs: asked.append(*inputs))
    read_sentences(bilm, tokens, bilm.bilstm.zero_state(len(tokens)))
    (words,) = asked
    n_distinct = len({word for sentence in SENTENCES for word in sentence})
    n_read = n_distinct + 1 + 2  # and "no word"
    assert len(words) == rounded_up(n_read)
    assert len(words[:n_read].unique(dim=0)) == len(words.unique(dim=0)) == n_read
    for boundary in bilm.boundaries:
        assert (words[:n_read] == boundary).all(dim=1).sum() == 1


def _batch(bilm: BiLM) -> torch.Tensor:
    """Return `SENTENCES`, padded with one more column than needed."""
    width, length = max(map(len, SENTENCES)) + 1, bilm.max_characters_per_token
    tokens = torch.zeros(len(SENTENCES), width, length, dtype=torch.long)
    for row, sentence in enumerate(SENTENCES):
        ids = torch.tensor([oracle.characters(word, length) for word in sentence])
        tokens[row, : len(sentence)] = ids + 1
    return tokens
