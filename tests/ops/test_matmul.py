"""Products by oneDNN, packed or not, against PyTorch's own in float64."""

import copy
import pickle

import pytest
import torch

from elmo_plugin.ops import matmul
from elmo_plugin.ops.linear import Linear
from elmo_plugin.ops.matmul import (
    PackedWeightCache,
    PackedWeights,
    add_products,
    products,
    times_transposed,
    write_products,
)
from tests.compare import assert_close

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.5}
"""For sums of 300 products of normal numbers; bf16 has 8 bits, and the sums reach 60."""


def factors(dtype: torch.dtype, n_rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`(2, n, 300)`, `(2, 300, 40)` and their products, of the rounded numbers."""
    torch.manual_seed(0)
    x = torch.randn(2, n_rows, 300, dtype=torch.float64).to(dtype)
    weights = torch.randn(2, 300, 40, dtype=torch.float64).to(dtype)
    return x, weights, x.double() @ weights.double()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("n_rows", [1, 7, 300])  # 300 rows are more than one block
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_products_are_torchs(dtype, n_rows, packed):
    """Expected: the float64 product. All three ways to get it, also into every other row."""
    x, weights, expected = factors(dtype, n_rows)
    if packed:
        if dtype not in matmul._ONEDNN:
            pytest.skip(f"oneDNN here does not multiply {dtype}")
        weights = PackedWeights(weights)
    atol = TOLERANCE[dtype]
    assert_close(products(x, weights).double(), expected, atol=atol, what="products")

    out = torch.zeros(2, 2 * n_rows, 40, dtype=torch.float64)
    bias = torch.randn(2, 40, dtype=torch.float64)
    write_products(out[:, ::2], x, weights, bias)
    assert_close(out[:, ::2], expected + bias[:, None], atol=atol, what="written")
    add_products(out[:, ::2], x, weights)
    assert_close(out[:, ::2], 2 * expected + bias[:, None], atol=2 * atol, what="added")
    assert not out[:, 1::2].any()


def test_a_product_over_nothing_is_zero():
    """By definition of an empty sum; oneDNN alone refuses it."""
    nothing = times_transposed(torch.empty(3, 0), torch.empty(2, 0))
    assert torch.equal(nothing, torch.zeros(3, 2))
    assert times_transposed(torch.empty(0, 4), torch.empty(2, 4)).shape == (0, 2)


def test_weights_are_packed_only_where_no_gradient_passes():
    """Property: what has a gradient stays a tensor; frozen weights are packed once, and anew when
    they change."""
    prepared, weights = PackedWeightCache(), torch.randn(1, 3, 2)
    assert isinstance(prepared([weights], None)[0], torch.Tensor)
    with torch.no_grad():
        [first] = prepared([weights], None)
        assert prepared([weights], None)[0] is first
        weights.mul_(2)
        [second] = prepared([weights], None)
        assert second is not first
        x = torch.randn(1, 4, 3)
        assert_close(products(x, second), 2 * products(x, first), atol=1e-5, what="doubled")
        assert isinstance(prepared([weights.requires_grad_()], None)[0], torch.Tensor)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_module_that_has_packed_its_weights_can_be_copied(duplicate):
    """Expected: what the original gives."""
    linear, x = Linear(5, 3).requires_grad_(False), torch.randn(2, 5)
    with torch.no_grad():
        expected = linear(x)
        assert torch.equal(duplicate(linear)(x), expected)


@pytest.mark.parametrize("frozen", [False, True])
def test_linear_is_torchs(frozen):
    """Expected: `torch.nn.functional.linear` and its gradients, in float64; also the input's alone,
    through a frozen layer."""
    torch.manual_seed(0)
    linear = Linear(6, 4).requires_grad_(not frozen)
    x = torch.randn(5, 6, requires_grad=True)
    weight = torch.randn(5, 4)
    wanted = [x] if frozen else [x, linear.weight, linear.bias]
    found = linear(x)
    gradients = torch.autograd.grad((found * weight).sum(), wanted)

    double = [t.detach().double().requires_grad_() for t in (x, linear.weight, linear.bias)]
    expected = torch.nn.functional.linear(*double)
    assert_close(found, expected, atol=1e-5, what="values")
    references = torch.autograd.grad((expected * weight).sum(), double[: len(wanted)])
    for gradient, reference in zip(gradients, references):
        assert_close(gradient, reference, atol=1e-5, what="gradient")
