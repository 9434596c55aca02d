"""The compiled LSTM kernel in bf16, compared with its equation with products of rounded factors."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend
from elmo_plugin.ops.lstm import kernel, reference_lstm
from tests.compare import cosine
from tests.ops.operator_cases import random_lstm

BF16 = torch.bfloat16
needs_bf16 = pytest.mark.skipif(
    BF16 not in backend.KERNEL_DTYPES, reason=f"the kernels are {backend.KERNEL_STATUS}"
)


class RoundedFactors(TorchFunctionMode):
    """Rounds what is multiplied to bf16, and lets gradients through as if it were not rounded."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.matmul, Tensor.__matmul__):
            args = [x + (x.bfloat16().float() - x).detach() for x in args]
        return func(*args, **(kwargs or {}))


def reference(lstm: ProjectedLSTM, *tensors: Tensor, sizes: list[int] | None) -> Any:
    weights = lstm.weights()
    weights = weights.map_matrices(lambda x, _: x.float())._replace(bias=weights.bias.float())
    with RoundedFactors():
        return reference_lstm(*tensors, weights, sizes)


@needs_bf16
def test_random_cases(fuzz):
    """Expected: the equation. What remains is a factor that the kernel rounds to the other
    neighbor, one bit in 8, which is rare: values have a cosine of at least 0.99999 and gradients of
    at least 0.9995, because the gradient of a clip jumps."""
    for random in fuzz.cases(20):
        lstm, tensors, sizes = random_lstm(random)
        lstm.precision = BF16
        leaves = [tensors[0].requires_grad_(), *lstm.parameters()]
        found, expected = lstm(*tensors, sizes), reference(lstm, *tensors, sizes=sizes)
        assert found[0].grad_fn.operators is kernel
        weight = torch.randn_like(found[0])
        pairs = [(x, y, 0.99999) for x, y in zip(found, expected)]
        gradients = (torch.autograd.grad((x[0] * weight).sum(), leaves) for x in (found, expected))
        pairs += [(x, y, 0.9995) for x, y in zip(*gradients)]
        for x, y, least in pairs:
            assert not y.any() or cosine(x.detach(), y.detach()) > least
