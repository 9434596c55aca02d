import copy
import re
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


COUNT = "a whole number from 1 to 2147483647"
WRONG = [
    ("lstm.dim", COUNT, [("7", "'7'"), (True, "true"), (2**31, 2**31), (7.5, 7.5)]),
    ("lstm.n_layers", "a whole number from 1 to 1000", [(0, 0), (None, "null"), (10**9, 10**9)]),
    ("lstm.use_skip_connections", "true or false", [(1, 1)]),
    ("lstm.proj_clip", "a finite number of at least 0", [(-3, -3), (True, "true"), ([3.0], [3.0])]),
    ("lstm.proj_clip", "a finite number of at least 0", [(float(x), x) for x in ("nan", "inf")]),
    ("lstm.proj_clip", "a finite number of at least 0", [(10**400, f"1{'0' * 59}...")]),
    ("char_cnn.n_highway", "a whole number from 0 to 2147483647", [(False, "false")]),
    ("char_cnn.activation", "one of 'relu', 'tanh'", [("gelu", "'gelu'")]),
    ("char_cnn.n_characters", "one of 261, 262", [(260, 260)]),
    ("char_cnn.max_characters_per_token", "a whole number from 3 to 4096", [(2, 2), (4097, 4097)]),
    *(
        ("char_cnn.filters", "a list of [width, number] pairs", [(filters, filters)])
        for filters in ([], 3, [3], [[1]], [[1, 2, 3]])
    ),
]
"""Keys, what is expected of them, and values with the form in which the message shows them."""


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        *(
            ({block: {**BLOCKS[block], key: value}}, f"{name}: expected {what}, found {found}")
            for name, what, values in WRONG
            for block, _, key in [name.partition(".")]
            for value, found in values
        ),
        ({"lstm": without(LSTM, "dim")}, "lstm: missing key dim"),
        ({"lstm": {**LSTM, "dims": 3}}, "lstm: unknown key dims; its keys are " + ", ".join(LSTM)),
        (
            {"lstm": {**LSTM, "b": 3, "a": 3}},
            "lstm: unknown keys a, b; its keys are " + ", ".join(LSTM),
        ),
        ({"lstm": [7, 5]}, "lstm: expected a block {...}, found [7, 5]"),
        ({"lstm": None}, "lstm: expected a block {...}, found null"),
        *(
            ({"char_cnn": None, "words": block}, f"words{message}")
            for block, message in (
                ({}, ": missing key dim"),
                ({"dim": 0}, f".dim: expected {COUNT}, found 0"),
                ({"dim": 4, "tied": 1}, ".tied: expected true or false, found 1"),
                (
                    {"dim": 4, "size": 1},
                    ": unknown key size; its keys are dim, tied, n_words, n_bytes",
                ),
            )
        ),
        ({"char_cnn": None}, "expected a block char_cnn or words, found neither"),
        ({"words": {"dim": 5}}, "expected one of the blocks char_cnn and words, found both"),
        (
            {"char_cnn": None, "words": {"dim": 6, "tied": True}},
            "words.dim: expected lstm.projection_dim 5 with tied, found 6",
        ),
        ({"char_cnn": 3}, "char_cnn: expected a block {...}, found 3"),
        ({"char_cnn": without(CHAR_CNN, "filters")}, "char_cnn: missing key filters"),
        (
            {"char_cnn": {**CHAR_CNN, "embedding": {"dim": 3, "size": 4}}},
            "char_cnn.embedding: unknown key size; its keys are dim",
        ),
        *(
            (
                {"char_cnn": {**CHAR_CNN, "filters": [[1, 3], [width, 3]]}},
                f"char_cnn.filters: width: expected a whole number from 1 to 10, found {width}",
            )
            for width in (0, 11, 2.5)
        ),
        *(
            (
                {"char_cnn": {**CHAR_CNN, "filters": [[1, 3], [1, number]]}},
                f"char_cnn.filters: number: expected {COUNT}, found {found}",
            )
            for number, found in ((0, 0), ("a", "'a'"), (True, "true"), (2**31, 2**31))
        ),
    ],
)
def test_wrong_options_are_named(blocks, message):
    """The message names the file, the key, what was expected and what was found."""
    with pytest.raises(InputError, match=f"^{re.escape('options.json: ' + message)}$"):
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
    with pytest.raises(
        InputError, match=r"^(lstm, )?char_cnn( and words|.n_highway)?: expected .* found "
    ):
        check_size(options, n_words)
