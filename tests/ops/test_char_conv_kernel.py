"""The compiled kernel of the convolutions compared with their definition."""

import pytest
import torch

from elmo_plugin.ops import backend, char_conv
from elmo_plugin.ops.char_conv import frozen_convolve, max_of_convolutions
from elmo_plugin.ops.char_conv.reference import reference_max_of_convolutions
from tests.compare import assert_close
from tests.conftest import needs_kernel

pytestmark = needs_kernel


@pytest.fixture(autouse=True)
def only_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(char_conv.torch_ops, "_best_windows_of", None)


def test_frozen_convolutions_choose_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernels PyTorch's operators compute, of which this file has removed one. A benchmark
    compares both ways with the same frozen convolutions."""
    embedding, convolutions = torch.nn.Embedding(262, 4), [torch.nn.Conv1d(4, 8, 2)]
    convolve = frozen_convolve(embedding, convolutions)
    characters = torch.ones(3, 12, dtype=torch.long)
    assert convolve(characters).shape == (3, 8)
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        convolve(characters)


def test_a_lexicon_costs_what_its_characters_in_a_batch_cost():
    """Expected: what is saved for the gradient is less than a hundredth of the tables of all 6,000
    characters. An id without a row is an error."""
    characters = torch.tensor([[5, 5999, 7, 0, 0], [5, 512, 5999, 7, 0]])
    weights = torch.randn(6000, 4, requires_grad=True), torch.randn(64, 4, 2), torch.randn(64)
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.nbytes) or x, iter)
    with hooks:
        max_of_convolutions(characters, weights[0], [weights[1:]])
    assert 0 < sum(saved) < 6000 * 64 * 2 * 4 / 100
    for character in (-1, 6000):
        with pytest.raises(IndexError):
            max_of_convolutions(characters * 0 + character, weights[0], [weights[1:]])


def test_longer_words_take_the_other_path():
    """Positions of windows fit a byte in words of 256 characters, and not in longer ones."""
    embedding, convolutions = torch.randn(9, 3), [(torch.randn(4, 3, 2), torch.zeros(4))]
    words = torch.randint(9, (2, 257))
    expected = reference_max_of_convolutions(words[:, :256], embedding, convolutions)
    found = max_of_convolutions(words[:, :256], embedding, convolutions)
    assert_close(found, expected, atol=1e-5, what="maxima")
    with pytest.raises(TypeError):  # `only_the_kernel` has taken it away
        max_of_convolutions(words, embedding, convolutions)
