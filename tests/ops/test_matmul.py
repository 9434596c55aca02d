"""These tests compare products by oneDNN, packed or not, with PyTorch's own in float64."""

import pytest
import torch

from elmo_plugin.ops.linear import Linear, PackedWeights, batched_matmul, matmul
from elmo_plugin.ops.private_torch import ONEDNN_DTYPES
from tests.compare import assert_close

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.5}
"""Sums of 300 products of normal numbers; bf16 has 8 bits, and the sums reach 60."""


def factors(dtype: torch.dtype, n_rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return factors of shapes `(2, n, 300)` and `(2, 300, 40)`, and the products of the rounded
    numbers."""
    torch.manual_seed(0)
    x = torch.randn(2, n_rows, 300, dtype=torch.float64).to(dtype)
    weights = torch.randn(2, 300, 40, dtype=torch.float64).to(dtype)
    return x, weights, x.double() @ weights.double()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("n_rows", [1, 7, 300])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_products_are_torchs(dtype, n_rows, packed):
    """The float64 product is the oracle for a new tensor, for one written to every other row, and
    for one that is added."""
    x, weights, expected = factors(dtype, n_rows)
    if packed:
        if dtype not in ONEDNN_DTYPES:
            pytest.skip(f"oneDNN does not multiply {dtype} on this machine")
        weights = PackedWeights(weights)
    atol = TOLERANCE[dtype]
    found = batched_matmul(x, weights)
    assert found.dtype == dtype
    assert_close(found.double(), expected, atol=atol, what="products")

    out = torch.zeros(2, 2 * n_rows, 40, dtype=torch.float64)
    written = batched_matmul(x, weights, out=out[:, ::2])
    assert_close(out[:, ::2], expected, atol=atol, what="written")
    assert torch.equal(written, out[:, ::2])
    batched_matmul(x, weights, out=out[:, ::2], add=True)
    assert_close(out[:, ::2], 2 * expected, atol=2 * atol, what="added")
    assert not out[:, 1::2].any()


def test_an_empty_product_is_zero():
    """An empty sum is zero by definition; oneDNN itself refuses it."""
    assert torch.equal(matmul(torch.empty(3, 0), torch.empty(0, 2)), torch.zeros(3, 2))
    assert matmul(torch.empty(0, 4), torch.empty(4, 2)).shape == (0, 2)


@pytest.mark.parametrize("frozen", [False, True])
def test_linear_is_torchs(frozen):
    """The oracle is `torch.nn.functional.linear` with its gradients, in float64. A frozen layer has
    only the input's gradient."""
    torch.manual_seed(0)
    linear, weight = Linear(6, 4).requires_grad_(not frozen), torch.randn(5, 4)
    own = [torch.randn(5, 6, requires_grad=True), linear.weight, linear.bias]
    double = [x.detach().double().requires_grad_() for x in own]
    found, expected = linear(own[0]), torch.nn.functional.linear(*double)
    assert_close(found, expected, atol=1e-5, what="values")
    n = 1 if frozen else 3
    gradients = torch.autograd.grad((found * weight).sum(), own[:n])
    for one, other in zip(gradients, torch.autograd.grad((expected * weight).sum(), double[:n])):
        assert_close(one, other, atol=1e-5, what="gradient")
    assert linear(own[0].half()).dtype == torch.float16  # which autocast gives
