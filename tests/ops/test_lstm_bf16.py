"""The compiled LSTM kernel in bf16, compared with its equation with products of rounded factors."""

from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend
from elmo_plugin.ops.lstm import kernel, reference_lstm
from tests.compare import cosine

BF16 = torch.bfloat16
needs_bf16 = pytest.mark.skipif(
    BF16 not in backend.KERNEL_DTYPES, reason=f"the kernels are {backend.KERNEL_STATUS}"
)


def random_case(random: Random) -> tuple[ProjectedLSTM, Tensor, Tensor, Tensor, list[int] | None]:
    """A frozen LSTM, its inputs and states, and batch sizes: every kind of shape and clip."""
    torch.manual_seed(random.randrange(1000))
    dim = random.choice([1, 7, 64, 65, 130])
    clips = [random.choice([None, 0.3]) for _ in range(2)]
    input_dim, projection_dim = random.choice([1, 5, 64, 100]), random.choice([dim, 3, 64, 70])
    sizes = {"input_dim": input_dim, "dim": dim, "projection_dim": projection_dim}
    lstm = ProjectedLSTM(**sizes, cell_clip=clips[0], proj_clip=clips[1])
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    lstm.precision = BF16
    n_steps, n_rows = random.choice([1, 2, 9, 140]), random.choice([1, 3, 16, 33, 40])
    lengths = sorted((random.randint(0, n_rows) for _ in range(n_steps)), reverse=True)
    states = 0.3 * torch.randn(2, n_rows, dim), 0.2 * torch.randn(2, n_rows, projection_dim)
    inputs = torch.randn(2, n_steps, n_rows, input_dim)
    return lstm, inputs, *states, random.choice([None, lengths])


class RoundedFactors(TorchFunctionMode):
    """Rounds what is multiplied to bf16, and lets gradients through as if it were not rounded."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.matmul, Tensor.__matmul__):
            args = [x + (x.bfloat16().float() - x).detach() for x in args]
        return func(*args, **(kwargs or {}))


def reference(lstm: ProjectedLSTM, *arguments: Any) -> tuple[Tensor, ...]:
    *tensors, sizes = arguments
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
        lstm, inputs, *others = random_case(random)
        leaves = [inputs.requires_grad_(), *lstm.parameters()]
        found, expected = lstm(inputs, *others), reference(lstm, inputs, *others)
        assert found[0].grad_fn.operators is kernel
        weight = torch.randn_like(found[0])
        pairs = [(x, y, 0.99999) for x, y in zip(found, expected)]
        gradients = (torch.autograd.grad((x[0] * weight).sum(), leaves) for x in (found, expected))
        pairs += [(x, y, 0.9995) for x, y in zip(*gradients)]
        for x, y, least in pairs:
            assert not y.any() or cosine(x.detach(), y.detach()) > least
