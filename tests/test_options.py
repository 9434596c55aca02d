import copy
from typing import Any

import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.formats.fill import check_size
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from tests import oracle
from tests.random_bilm import CHAR_CNN, LSTM

BLOCKS = {"lstm": LSTM, "char_cnn": CHAR_CNN}


def read(lstm: Any = LSTM, char_cnn: Any = CHAR_CNN, words: Any = None) -> BiLMOptions:
    blocks = {"lstm": lstm, "char_cnn": char_cnn, "words": words}
    return BiLMOptions.from_dict(blocks, source="options.json")


def test_defaults():
    """The expected defaults are bilm-tf's behavior if a key is left out, and the published models'
    50 characters and relu."""
    options = read({"dim": 7, "projection_dim": 5}, {"embedding": {"dim": 3}, "filters": [[1, 3]]})
    assert options.lstm.n_layers == 1
    assert options.lstm.cell_clip is None and options.lstm.proj_clip is None
    assert options.lstm.use_skip_connections is False
    assert options.char_cnn.n_highway == 0
    assert options.char_cnn.activation == "relu"
    assert options.char_cnn.max_characters_per_token == 50


@pytest.mark.parametrize("bound", [None, 0, 0.0])
def test_no_clip_can_be_written_in_three_ways(bound):
    """AllenNLP tests `if self.memory_cell_clip_value:`, for which 0 is no clip."""
    assert read({**LSTM, "cell_clip": bound}).lstm.cell_clip is None


def test_null_counts_as_absent_as_in_bilm_tf():
    """bilm-tf reads `.get("n_highway")` and `.get("use_skip_connections")`, for which null and a
    missing key are the same."""
    options = read({**LSTM, "use_skip_connections": None}, {**CHAR_CNN, "n_highway": None})
    assert options == read(without(LSTM, "use_skip_connections"), without(CHAR_CNN, "n_highway"))
    assert options.lstm.use_skip_connections is False
    assert options.char_cnn.n_highway == 0


def test_reading_leaves_the_blocks_alone():
    """The blocks of a config may be read twice."""
    lstm, char_cnn = copy.deepcopy(LSTM), copy.deepcopy(CHAR_CNN)
    assert read(lstm, char_cnn) == read(lstm, char_cnn)
    assert (lstm, char_cnn) == (LSTM, CHAR_CNN)


def test_a_bilm_is_built_to_its_options():
    """The sizes of the parameters follow from the options, and the characters of the boundaries are
    the oracle's plus one."""
    bilm = BiLM(read(), dropout=0.3)
    assert bilm.options == read()
    assert bilm.token_encoder.char_embedding.weight.shape == (262, 3)
    assert bilm.bilstm.n_layers == 2 and bilm.bilstm.dropout.p == 0.3
    assert bilm.bilstm.layers[1].input_weight.shape == (2, 5, 28)
    expected = torch.tensor([oracle.characters(token, 10) for token in ("<S>", "</S>")]) + 1
    assert torch.equal(bilm.boundaries, expected)


def without(block: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in block.items() if k != key}


WRONG: dict[str, list[Any]] = {
    "lstm.dim": ["7", True, 2**31, 7.5],
    "lstm.n_layers": [0, None, 10**9],
    "lstm.use_skip_connections": [1],
    "lstm.proj_clip": [-3, True, [3.0], float("nan"), float("inf"), 10**400],
    "char_cnn.n_highway": [False],
    "char_cnn.activation": ["gelu"],
    "char_cnn.n_characters": [260],
    "char_cnn.max_characters_per_token": [2, 4097],
    "char_cnn.filters": [[], 3, [3], [[1]], [[1, 2, 3]], [[1, 3], [0, 3]], [[11, 3]], [[2.5, 3]]]
    + [[[1, 3], [1, number]] for number in (0, "a", True, 2**31)],
}
"""Keys, and values that they cannot have. A filter has at most the width of a word, 10."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named(name):
    """The message names the file and the key, and says what was expected and what was found."""
    block, _, key = name.partition(".")
    for value in WRONG[name]:
        with pytest.raises(InputError, match=rf"^options\.json: {name}: .*expected .*, found "):
            read(**{block: {**BLOCKS[block], key: value}})


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"lstm": without(LSTM, "dim")}, "lstm: missing key dim"),
        ({"lstm": {**LSTM, "dims": 3}}, "lstm: unknown key dims; its keys are dim, .*, n_layers"),
        ({"lstm": {**LSTM, "b": 3, "a": 3}}, "lstm: unknown keys a, b; its keys are"),
        ({"lstm": [7, 5]}, r"lstm: expected a block .*, found \[7, 5\]"),
        ({"lstm": None}, "lstm: expected a block .*, found null"),
        ({"char_cnn": None, "words": {}}, "words: missing key dim"),
        ({"char_cnn": None, "words": {"dim": 0}}, r"words\.dim: expected .*, found 0"),
        ({"char_cnn": None, "words": {"dim": 4, "tied": 1}}, r"words\.tied: expected .*, found 1"),
        ({"char_cnn": None, "words": {"dim": 4, "size": 1}}, "words: unknown key size"),
        ({"char_cnn": None}, "char_cnn or words, found neither"),
        ({"words": {"dim": 5}}, "char_cnn and words, found both"),
        ({"char_cnn": None, "words": {"dim": 6, "tied": True}}, "projection_dim 5 .*, found 6"),
        ({"char_cnn": without(CHAR_CNN, "filters")}, "char_cnn: missing key filters"),
        ({"char_cnn": {**CHAR_CNN, "embedding": {"dim": 3, "size": 4}}}, "embedding: .*key size"),
    ],
)
def test_wrong_blocks_are_named(blocks, message):
    """The message names the file, the block and the key."""
    with pytest.raises(InputError, match=rf"^options\.json: .*{message}"):
        read(**blocks)


@pytest.mark.parametrize(
    ("lstm", "char_cnn", "n_words"),
    [
        ({"dim": 10**9}, {}, 0),
        ({"projection_dim": 10**9}, {}, 0),
        ({}, {"embedding": {"dim": 10**9}}, 0),
        ({}, {"filters": [[1, 10**9]]}, 0),
        ({}, {"n_highway": 2**31 - 1}, 0),
        ({"projection_dim": 10**6}, {}, 10**5),
    ],
)
def test_sizes_that_would_fill_the_memory(lstm, char_cnn, n_words):
    """By hand: each has more than 2^32 parameters, or too many layers."""
    options = read({**LSTM, **lstm}, {**CHAR_CNN, **char_cnn})
    with pytest.raises(InputError, match=r"char_cnn.*: expected .* found "):
        check_size(options, n_words)
