"""The biLM compared with the NumPy oracle, for each architecture that an options file can describe,
and with itself in other batches."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_plugin import Elmo
from elmo_plugin.modules import LSTMState
from elmo_plugin.modules import bilm as bilm_module
from elmo_plugin.modules.bilm import N_BOUNDARIES, SentenceLayers
from elmo_plugin.modules.token_encoder import rounded_up
from elmo_plugin.pretrained import pretrained_names
from elmo_plugin.text.characters import words_to_characters
from tests import oracle
from tests.compare import assert_close
from tests.random_bilm import (
    CHAR_CNN,
    arrays_of,
    oracle_state,
    random_bilm,
    random_state,
    read_sentences,
)

BILM = random_bilm().bilm
BILM.warm_up()
LENGTH = CHAR_CNN["max_characters_per_token"]


def to_batch(sentences: list[list[str]], padding: int = 0, length: int = LENGTH) -> torch.Tensor:
    """The character ids of one batch, with `padding` more columns than needed."""
    width = max(map(len, sentences)) + padding
    tokens = torch.zeros(len(sentences), width, length, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        for column, word in enumerate(sentence):
            tokens[row, column] = 1 + torch.tensor(oracle.characters(word, length))
    return tokens


def read(sentences: list[list[str]], state_name: str = "zero", padding: int = 0) -> SentenceLayers:
    """Return the layers of `sentences` in one batch."""
    with torch.no_grad():
        state = start(state_name, len(sentences))
        return read_sentences(BILM, to_batch(sentences, padding), state)


def start(state_name: str, n_rows: int) -> LSTMState:
    return (BILM.bilstm.zero_state if state_name == "zero" else BILM.warm_state)(n_rows)


# The words have any code points, surrogates and NUL included, and a text repeats some of them.
TOKENS = st.one_of(
    st.sampled_from(["the", "a", "", "<S>", "</S>", "\0", "\ud800", "👩‍👩‍👧", "e\u0301", "x" * 50]),
    st.text(st.characters(exclude_categories=()), max_size=12),
)
SENTENCES = st.lists(TOKENS, max_size=7)


@pytest.mark.parametrize("state_name", ["zero", "warm"])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_sentence_does_not_depend_on_its_batch(state_name, data):
    """With a fixed initial state, a sentence's vectors do not depend on its neighbors, its
    position in the batch or the batch's padding. Padding has zeros."""
    sentence = data.draw(SENTENCES, label="sentence")
    others = data.draw(st.lists(SENTENCES, max_size=4), label="others")
    place = data.draw(st.integers(0, len(others)), label="place")
    padding = data.draw(st.integers(0, 3), label="padding")
    alone = read([sentence], state_name)
    batch = [*others[:place], sentence, *others[place:]]
    together = read(batch, state_name, padding)
    n = len(sentence) + 2
    for k, (found, expected) in enumerate(zip(together.layers, alone.layers, strict=True)):
        assert expected.shape[:2] == (1, n)
        assert_close(found[place, :n], expected[0], atol=1e-5, what=f"layer {k}")
        assert not any(found[row, len(other) + 2 :].any() for row, other in enumerate(batch))
    for found, expected in zip(together.state, alone.state):
        assert_close(found[:, :, place], expected[:, :, 0], atol=1e-5, what="state")


@pytest.mark.parametrize("state_name", ["zero", "warm"])
@settings(deadline=None, max_examples=60)
@given(sentences=st.lists(SENTENCES, min_size=1, max_size=5), padding=st.integers(0, 2))
@example(sentences=[[], []], padding=1)
def test_sentences_are_read_without_boundaries(state_name, sentences, padding):
    """The expected layers are those with boundaries, which are read in every batch. A sentence may
    be empty."""
    expected = read(sentences, state_name, padding)
    with torch.no_grad():
        state = BILM.after_boundary(start(state_name, 1)).expand(len(sentences))
        tokens = to_batch(sentences, padding)
        lengths = BILM.sentence_lengths(tokens)
        found = BILM.sentences(tokens, lengths, state, boundaries=False)
    assert lengths.tolist() == list(map(len, sentences))
    for k, (inner, whole) in enumerate(zip(found.layers, expected.layers, strict=True)):
        for row, sentence in enumerate(sentences):
            n = len(sentence)
            assert_close(inner[row, :n], whole[row, 1 : n + 1], atol=1e-5, what=f"layer {k}")
            assert not inner[row, n:].any()


def test_gradients_do_not_depend_on_the_batch():
    """The gradients of a batch are the sums of those of its sentences alone. Id 0, the padding, has
    no gradient."""
    batch = [["the", "dog"], ["a"], ["the", "🙂", "the", "naïve"]]
    encoder_table = BILM.token_encoder.char_embedding.weight

    def gradients(batch: list[list[str]]) -> list[torch.Tensor]:
        state = random_state(BILM, 1).expand(len(batch))
        layers, _ = read_sentences(BILM, to_batch(batch), state)
        loss = sum((h**2).sum() for h in layers)  # zeros at padding
        return list(torch.autograd.grad(loss, [*BILM.parameters()]))

    together = gradients(batch)
    alone = [gradients([sentence]) for sentence in batch]
    for (name, parameter), found, parts in zip(BILM.named_parameters(), together, zip(*alone)):
        assert_close(found, sum(parts), atol=1e-4, rtol=1e-5, what=f"gradient of {name}")
        if parameter is encoder_table:
            assert not found[0].any()


def test_warm_up_is_a_run_over_boundaries(tmp_path):
    """The expected state is that of the oracle after it reads `<S> </S>` repeatedly from zeros, and
    `</S> <S>` in the backward direction. Dropout, as while a model is built, changes nothing."""
    bilm, options = random_bilm()
    arrays = arrays_of(bilm, tmp_path)
    begin, end = (oracle.word_vector(arrays, options, token) for token in ("<S>", "</S>"))
    state = oracle.zero_state(options)
    for _ in range(N_BOUNDARIES):
        _, state = oracle.stream(arrays, options, 0, [begin, end], state)
        _, state = oracle.stream(arrays, options, 1, [end, begin], state)
    bilm.bilstm.dropout.p = 0.5
    bilm.train()
    bilm.warm_up()
    found = bilm.warm_state(1)
    assert bilm.training
    for key, (c, h) in oracle_state(found, 0).items():
        assert_close(c, state[key][0], atol=1e-5, what=f"c {key}")
        assert_close(h, state[key][1], atol=1e-5, what=f"h {key}")


@pytest.mark.parametrize("name", pretrained_names())
def test_one_more_empty_sentence_hardly_matters(name, monkeypatch):
    """Expected: the bounds in the docstring of `N_BOUNDARIES`, of the change's norm."""
    bilm = Elmo.from_pretrained(name).bilm
    states = []
    for n in (N_BOUNDARIES, N_BOUNDARIES + 1):
        monkeypatch.setattr(bilm_module, "N_BOUNDARIES", n)
        bilm.warm_up()
        states.append([x.clone() for x in bilm.warm_state(1)])
    cell, hidden = (float((b - a).norm() / b.norm()) for a, b in zip(*states, strict=True))
    assert 0 < hidden < 0.001 and 0 < cell < 0.01


BATCH = [["naïve", "🙂", "a", "the", "the", ""], ["incomprehensibilities"], ["the", "dog", "a"]]

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
    before = random_state(bilm, len(BATCH))
    tokens = to_batch(BATCH, 1, bilm.max_characters_per_token)
    for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        bilm.to(dtype)
        with torch.no_grad():
            layers, after = read_sentences(bilm, tokens, LSTMState(*(x.to(dtype) for x in before)))
        if variant == "tiny_clips":  # which no number exceeds, and some equal
            assert [float(x.abs().max()) for x in after] == pytest.approx([0.02, 0.01], rel=1e-6)
        for row, sentence in enumerate(BATCH):
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


def test_each_distinct_word_is_encoded_once():
    """Counted by hand, the two boundaries included. The first words are repeated up to a size of
    `rounded_up`."""
    bilm, _ = random_bilm()
    tokens = to_batch(BATCH, 1, bilm.max_characters_per_token)
    asked = []
    bilm.token_encoder.register_forward_pre_hook(lambda _, inputs: asked.append(*inputs))
    read_sentences(bilm, tokens, bilm.bilstm.zero_state(len(tokens)))
    (words,) = asked
    n_distinct = len({word for sentence in BATCH for word in sentence})
    n_read = n_distinct + 1 + 2  # and "no word"
    assert len(words) == rounded_up(n_read)
    assert len(words[:n_read].unique(dim=0)) == len(words.unique(dim=0)) == n_read
    for boundary in bilm.boundaries:
        assert (words[:n_read] == boundary).all(dim=1).sum() == 1
