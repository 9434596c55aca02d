import pickle
from copy import deepcopy

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.text.characters import one_token, words_to_characters

WORD = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(["<S>", "add"])


def batch_of(indexer: TokenIndexer, sentences: list[list[str]]) -> torch.Tensor:
    """Indexes sentences through AllenNLP's fields and batches, shape `(B, T, C)`."""
    fields = [TextField(list(map(Token, words)), {"elmo": indexer}) for words in sentences]
    batch = Batch([Instance({"source": field}) for field in fields])
    batch.index_instances(Vocabulary())
    return batch.as_tensor_dict()["source"]["elmo"]["elmo_tokens"]  # type: ignore[index, call-overload]


@given(
    st.lists(st.lists(WORD, max_size=6), min_size=1, max_size=4),
    st.sampled_from([None, {"add": 7, "<S>": 8}]),
    st.sampled_from([0, 3]),
)
def test_equals_allennlps_indexer(sentences, tokens_to_add, token_min_padding_length) -> None:
    """The oracle is AllenNLP's `elmo_characters` with the same parameters, in its own batches, for
    tokens whose whitespace is written as everywhere here."""
    shared = {"tokens_to_add": tokens_to_add, "token_min_padding_length": token_min_padding_length}
    if not any(sentences) and not token_min_padding_length:
        # AllenNLP's own makes a tensor without a last dimension if no sentence has a token.
        assert batch_of(ElmoTokenIndexer(**shared), sentences).shape == (len(sentences), 0, 50)
        return
    written = [list(map(one_token, sentence)) for sentence in sentences]
    expected = batch_of(ELMoTokenCharactersIndexer(**shared), written)
    found = batch_of(ElmoTokenIndexer(**shared), sentences)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_an_added_token_with_a_space() -> None:
    """By definition, it is the same token with either whitespace or an underscore."""
    indexer = ElmoTokenIndexer(tokens_to_add={"New York": 7})
    rows = batch_of(indexer, [["New York", "New_York", "New\u00a0York"]])[0]
    assert rows[:, :3].tolist() == [[259, 8, 260]] * 3


def test_another_length() -> None:
    """The oracle is `words_to_characters`, and positions without a token are 0."""
    found = batch_of(ElmoTokenIndexer(max_characters_per_token=12), [["a", "b"], ["c" * 30]])
    assert found[0].tolist() == words_to_characters(["a", "b"], 12).tolist()
    assert found[1].tolist() == [words_to_characters(["c" * 30], 12)[0].tolist(), [0] * 12]


def test_from_a_config() -> None:
    """A config names all parameters."""
    params = {
        "type": "elmo",
        "namespace": "mine",
        "tokens_to_add": {"add": 7},
        "max_characters_per_token": 20,
        "token_min_padding_length": 2,
    }
    indexer = TokenIndexer.from_params(Params(params))
    assert indexer == ElmoTokenIndexer("mine", {"add": 7}, 20, 2)
    assert batch_of(indexer, [["add"]])[0, 0, :3].tolist() == [259, 8, 260]


def test_all_characters_that_allennlps_models_can_read() -> None:
    """The oracle is AllenNLP's indexer. Its biLM has weights for the characters 0 to 260, and zeros
    for -1."""
    added = {f"x{character}": character for character in range(-1, 261)}
    expected = batch_of(ELMoTokenCharactersIndexer(tokens_to_add=added), [[*added, "x"]])
    assert torch.equal(batch_of(ElmoTokenIndexer(tokens_to_add=added), [[*added, "x"]]), expected)


def indexed(indexer: TokenIndexer, words: list[str]) -> TextField:
    field = TextField([Token(word) for word in words], {"elmo": indexer})
    field.index(Vocabulary())
    return field


def test_fields_compare_as_with_allennlps_indexer() -> None:
    """The oracle is AllenNLP's indexer, whose rows are lists."""
    words = ["the", "é", "added", "<S>"]
    own, stock = (
        kind(tokens_to_add={"added": 7}) for kind in (ElmoTokenIndexer, ELMoTokenCharactersIndexer)
    )
    tokens = [Token(word) for word in words]
    expected = stock.tokens_to_indices(tokens, Vocabulary())
    found = own.tokens_to_indices(tokens, Vocabulary())
    assert found == own.tokens_to_indices(tokens, Vocabulary())
    assert found != {"elmo_tokens": [*found["elmo_tokens"][:3], found["elmo_tokens"][0]]}
    assert [list(row) for row in found["elmo_tokens"]] == expected["elmo_tokens"]
    assert torch.LongTensor(found["elmo_tokens"]).tolist() == expected["elmo_tokens"]
    for copy in (copy_of(found) for copy_of in (deepcopy, lambda x: pickle.loads(pickle.dumps(x)))):
        assert copy == found
        lengths = {"elmo_tokens": 6}
        one, other = (own.as_padded_tensor_dict(rows, lengths) for rows in (copy, found))
        assert torch.equal(one["elmo_tokens"], other["elmo_tokens"])
    assert indexed(own, words) == indexed(own, words)
    assert indexed(own, words) != indexed(own, ["the", "e", "added", "<S>"])
    assert indexed(own, words).duplicate() == indexed(own, words)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("max_characters_per_token", [None, 2, -1, 10**12, 50.5, True, "50", [], float("nan")]),
        ("tokens_to_add", [{"x": 261}, {"x": -2}, {"x": None}, {"x": 7.5}]),
    ],
)
def test_wrong_parameters_are_named(key: str, values: list) -> None:
    """A word needs two marks and a byte, and bilm-tf has the ids of 261 characters and of none."""
    for value in values:
        with pytest.raises(InputError, match=rf"{key}.*: expected .*, found "):
            ElmoTokenIndexer(**{key: value})
