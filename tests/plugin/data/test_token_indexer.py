import pickle
from copy import deepcopy
from typing import Any

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
from elmo_plugin.text.characters import one_token

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


def test_from_a_config() -> None:
    """A config names all parameters."""
    params = {"namespace": "mine", "tokens_to_add": {"add": 7}, "max_characters_per_token": 20}
    params |= {"type": "elmo", "token_min_padding_length": 2}
    indexer = TokenIndexer.from_params(Params(params))
    assert indexer == ElmoTokenIndexer("mine", {"add": 7}, 20, 2)
    assert batch_of(indexer, [["add"]])[0, 0, :3].tolist() == [259, 8, 260]


def test_all_characters_that_allennlps_models_can_read() -> None:
    """The oracle is AllenNLP's indexer. Its biLM has weights for the characters 0 to 260, and zeros
    for -1."""
    added = {f"x{character}": character for character in range(-1, 261)}
    expected = batch_of(ELMoTokenCharactersIndexer(tokens_to_add=added), [[*added, "x"]])
    assert torch.equal(batch_of(ElmoTokenIndexer(tokens_to_add=added), [[*added, "x"]]), expected)


def test_fields_compare_as_with_allennlps_indexer() -> None:
    """The oracle is AllenNLP's indexer, whose rows are lists."""
    tokens = [Token(word) for word in ("the", "é", "added", "<S>")]
    own, stock = (
        kind(tokens_to_add={"added": 7}) for kind in (ElmoTokenIndexer, ELMoTokenCharactersIndexer)
    )
    expected = stock.tokens_to_indices(tokens, Vocabulary())["elmo_tokens"]
    found = own.tokens_to_indices(tokens, Vocabulary())
    assert found == own.tokens_to_indices(tokens, Vocabulary())
    assert found != {"elmo_tokens": [*found["elmo_tokens"][:3], found["elmo_tokens"][0]]}
    assert [list(row) for row in found["elmo_tokens"]] == expected
    assert torch.LongTensor(found["elmo_tokens"]).tolist() == expected
    for copy in (deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert copy == found
        padded = own.as_padded_tensor_dict(copy, {"elmo_tokens": 6})["elmo_tokens"]
        assert padded[:4].tolist() == expected and not padded[4:].any()
    field, same, other = (
        TextField([*map(Token, words)], {"elmo": own}) for words in ("ab", "ab", "ac")
    )
    for x in (field, same, other):
        x.index(Vocabulary())
    assert field == same == field.duplicate() != other


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_characters_per_token", 2),
        ("max_characters_per_token", 10**12),
        ("tokens_to_add", {"x": 261}),
        ("tokens_to_add", {"x": -2}),
    ],
)
def test_wrong_parameters_are_named(key: str, value: Any) -> None:
    """A word needs two marks and a byte, and bilm-tf has the ids of 261 characters and of none.
    tests/test_bad_parameters.py has values of other kinds."""
    with pytest.raises(InputError, match=rf"{key}.*: expected .*, found "):
        ElmoTokenIndexer(**{key: value})
