import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo_plugin.modules import LSTMState, SentenceLayers
from elmo_plugin.ops.unique_words import unique_words
from elmo_plugin.text.characters import words_to_characters
from tests.compare import assert_close
from tests.random_bilm import CHAR_CNN, random_bilm, random_state

BILM = random_bilm().bilm
BILM.warm_up()
LENGTH = CHAR_CNN["max_characters_per_token"]


def to_batch(sentences: list[list[str]], padding: int = 0) -> torch.Tensor:
    """The character ids of one batch, with `padding` more columns than needed."""
    width = max(map(len, sentences)) + padding
    tokens = torch.zeros(len(sentences), width, LENGTH, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        if sentence:
            tokens[row, : len(sentence)] = torch.from_numpy(words_to_characters(sentence, LENGTH))
    return tokens


def read(sentences: list[list[str]], state_name: str = "zero", padding: int = 0) -> SentenceLayers:
    """Returns the layers of `sentences` in one batch."""
    with torch.no_grad():
        return BILM.sentences(to_batch(sentences, padding), start(state_name, len(sentences)))


def start(state_name: str, n_rows: int) -> LSTMState:
    return (BILM.bilstm.zero_state if state_name == "zero" else BILM.warm_state)(n_rows)


def test_a_sentence_is_its_two_streams():
    """The expected layers are those of `forward` over `<S> w_1 .. w_n </S>` and, as another stream,
    over the same words from last to first, with its outputs reversed."""
    sentence = ["the", "dog", "the", "🙂", ""]
    layers, mask, after = read([sentence])
    words, inputs = unique_words(
        torch.from_numpy(words_to_characters(["<S>", *sentence, "</S>"], LENGTH))[None].long()
    )
    with torch.no_grad():
        [_, *streams], state = BILM(words, inputs, inputs.flip(1), BILM.bilstm.zero_state(1))
    vectors = BILM.token_encoder(words)[inputs[0]]
    assert mask.all()
    assert_close(layers[0][0], torch.cat([vectors, vectors], dim=1), atol=1e-6, what="words")
    for k, (found, (forward, backward)) in enumerate(zip(layers[1:], streams, strict=True)):
        expected = torch.cat([forward[:, 0], backward[:, 0].flip(0)], dim=1)
        assert_close(found[0], expected, atol=1e-6, what=f"layer {k + 1}")
    assert_close(after.memory, state.memory, atol=1e-6, what="memory")
    assert_close(after.output, state.output, atol=1e-6, what="output")


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
    """With a fixed initial state, a sentence's vectors do not depend on its neighbours, its
    position in the batch or the batch's padding. Padding has zeros."""
    sentence = data.draw(SENTENCES, label="sentence")
    others = data.draw(st.lists(SENTENCES, max_size=4), label="others")
    place = data.draw(st.integers(0, len(others)), label="place")
    padding = data.draw(st.integers(0, 3), label="padding")
    alone = read([sentence], state_name)
    batch = [*others[:place], sentence, *others[place:]]
    together = read(batch, state_name, padding)
    n = len(sentence) + 2
    assert alone.mask.shape == (1, n) and alone.mask.all()
    assert together.mask.sum(dim=1).tolist() == [len(other) + 2 for other in batch]
    assert together.mask[place, :n].all()
    for k, (found, expected) in enumerate(zip(together.layers, alone.layers, strict=True)):
        assert_close(found[place, :n], expected[0], atol=1e-5, what=f"layer {k}")
        assert not found[~together.mask].any()
    for found, expected in zip(together.state, alone.state):
        assert_close(found[:, :, place], expected[:, :, 0], atol=1e-5, what="state")


@pytest.mark.parametrize("state_name", ["zero", "warm"])
@settings(deadline=None, max_examples=60)
@given(sentences=st.lists(SENTENCES, min_size=1, max_size=5), padding=st.integers(0, 2))
@example(sentences=[[], []], padding=1)
def test_inner_words_are_sentences_without_boundaries(state_name, sentences, padding):
    """The expected layers are those of `sentences`, in which the boundaries are read in every
    batch. A sentence may be empty."""
    expected = read(sentences, state_name, padding)
    with torch.no_grad():
        state = BILM.after_boundary(start(state_name, 1)).expand(len(sentences))
        found = BILM.inner_words(to_batch(sentences, padding), state)
    assert found.mask.sum(dim=1).tolist() == list(map(len, sentences))
    for k, (inner, whole) in enumerate(zip(found.layers, expected.layers, strict=True)):
        for row, sentence in enumerate(sentences):
            n = len(sentence)
            assert_close(inner[row, :n], whole[row, 1 : n + 1], atol=1e-5, what=f"layer {k}")
        assert not inner[~found.mask].any()


def test_the_same_batch_is_the_same_to_the_bit():
    """Reading a batch leaves no state in the biLM."""
    batch = [["the", "dog"], [], ["a", "🙂", "b"]]
    first, again = read(batch), read(batch)
    assert all(map(torch.equal, first.layers, again.layers))


def test_gradients_do_not_depend_on_the_batch():
    """The gradients of a batch are the sums of those of its sentences alone. Id 0, the padding, has
    no gradient."""
    batch = [["the", "dog"], ["a"], ["the", "🙂", "the", "naïve"]]
    encoder_table = BILM.token_encoder.char_embedding.weight

    def gradients(batch: list[list[str]]) -> list[torch.Tensor]:
        width = max(map(len, batch))
        rows = [[*sentence, *[""] * (width - len(sentence))] for sentence in batch]
        tokens = torch.stack(
            [torch.from_numpy(words_to_characters(row, LENGTH)).long() for row in rows]
        )
        mask = torch.tensor([[column < len(s) for column in range(width)] for s in batch])
        layers, real, _ = BILM.sentences(
            tokens * mask[:, :, None], random_state(BILM, 1).expand(len(batch))
        )
        loss = sum((h[real] ** 2).sum() for h in layers)
        return list(torch.autograd.grad(loss, [*BILM.parameters()]))

    together = gradients(batch)
    alone = [gradients([sentence]) for sentence in batch]
    for (name, parameter), found, parts in zip(BILM.named_parameters(), together, zip(*alone)):
        assert_close(found, sum(parts), atol=1e-4, rtol=1e-5, what=f"gradient of {name}")
        if parameter is encoder_table:
            assert not found[0].any()


def test_the_sizes_are_those_of_the_paper():
    """By definition, each layer's vectors are the concatenated outputs of both directions."""
    assert BILM.output_dim == 2 * BILM.bilstm.projection_dim == read([["a"]]).layers[0].size(-1)
    assert BILM.bilstm.n_layers + 1 == len(read([["a"]]).layers)
    assert BILM.id_shape == (LENGTH,) and BILM.token_encoder.word_table is None
    words = random_bilm(char_cnn=None, n_words=5).bilm
    assert words.id_shape == () and words.token_encoder.word_table is not None
    assert len(words.token_encoder.word_table.weight) == words.n_ids == 5 + 1  # and "no word"
