"""A small model for the tests of bilm-tf's files, and comparisons of models."""

from collections.abc import Mapping
from typing import Any

import torch

from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.options import BiLMOptions
from tests import conftest

BLOCKS = {
    "lstm": {**conftest.BLOCKS["lstm"], "dim": 6, "projection_dim": 4},
    "char_cnn": {**conftest.BLOCKS["char_cnn"], "filters": [[1, 2], [2, 3]]},
}


def options_with(**changes: Any) -> BiLMOptions:
    """Return the options above with single keys of either block changed."""
    blocks = {
        name: {key: changes.get(key, value) for key, value in block.items()}
        for name, block in BLOCKS.items()
    }
    return BiLMOptions.from_dict(blocks, source="test")


Weights = torch.nn.Module | Mapping[str, torch.Tensor]


def assert_same(found: Weights | None, expected: Weights | None) -> None:
    """Fail unless the tensors of two modules have the same names and bits."""
    assert found is not None and expected is not None
    one, other = (
        x.state_dict() if isinstance(x, torch.nn.Module) else x for x in (found, expected)
    )
    assert one.keys() == other.keys()
    for name, tensor in other.items():
        assert torch.equal(one[name], tensor), name


def assert_same_model(found: FoundBiLM, expected: FoundBiLM) -> None:
    """Compare options, words and weights, also of the softmax, which both have."""
    assert found.bilm.options == expected.bilm.options
    assert found.words == expected.words
    assert_same(found.bilm, expected.bilm)
    assert_same(found.softmax, expected.softmax)
