"""Forward-mode derivatives, which the biLM does not implement, are an error and never zeros."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from elmo_plugin.modules import ProjectedLSTM, SampledSoftmax
from elmo_plugin.ops.linear import Linear

LSTM = ProjectedLSTM(input_dim=20, dim=70, projection_dim=20, cell_clip=3.0, proj_clip=3.0)
SOFTMAX = SampledSoftmax(n_words=300, dim=20, n_negative_samples=10).eval()
LINEAR = Linear(20, 7)
for module in (LSTM, SOFTMAX, LINEAR):
    module.requires_grad_(False)


def lstm(x: Tensor) -> Tensor:
    return LSTM(x.expand(2, 3, 2, 20), torch.zeros(2, 2, 70), torch.zeros(2, 2, 20))[0]


def softmax(x: Tensor) -> Tensor:
    return SOFTMAX(x, torch.tensor([1, 2]))


def likelihoods(x: Tensor) -> Tensor:
    with torch.no_grad():
        return SOFTMAX.log_probabilities(x, torch.tensor([1, 2]))


def linear(x: Tensor) -> Tensor:
    with torch.no_grad():
        return LINEAR(x)


@pytest.mark.parametrize("function", [lstm, softmax, likelihoods, linear])
def test_forward_mode_is_an_error(function: Callable[[Tensor], Tensor]) -> None:
    """By PyTorch's two interfaces; without a tangent it works."""
    x, tangent = torch.randn(2, 20), torch.ones(2, 20)
    expected = function(x)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(function, (x,), (tangent,))
    with forward_ad.dual_level():
        assert torch.equal(function(x), expected)
        with pytest.raises(NotImplementedError, match="forward-mode"):
            function(forward_ad.make_dual(x, tangent))
