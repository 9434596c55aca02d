import copy
import pickle

import pytest
import torch

from elmo_plugin.ops.linear import Linear, PackedWeightCache, batched_matmul, pack_weights
from tests.compare import assert_close


def test_weights_are_packed_only_if_no_gradient_passes():
    """Weights that want a gradient, or might, are not packed. Frozen weights are packed once, and
    again when they change."""
    cache = PackedWeightCache(pack_weights)
    weights = torch.nn.Parameter(torch.randn(1, 3, 2), requires_grad=False)
    assert cache([weights], None) is None
    with torch.no_grad():
        [first] = cache([weights], None)
        assert cache([weights], None)[0] is first
        weights.mul_(2)
        [second] = cache([weights], None)
        assert second is not first
        x = torch.randn(1, 4, 3)
        expected = 2 * batched_matmul(x, first)
        assert_close(batched_matmul(x, second), expected, atol=1e-5, what="doubled")
        assert cache([weights.requires_grad_()], None) is None


def test_products_are_cached_for_one_precision():
    """What is computed from weights with products, as the tables of the character CNN, is computed
    again if `torch.backends.mkldnn.matmul.fp32_precision` changes, which permits other numbers on
    some CPUs."""
    cache = PackedWeightCache(lambda weights: [w @ w for w in weights])
    weights = torch.nn.Parameter(torch.randn(3, 3), requires_grad=False)
    with torch.no_grad():
        [first] = cache([weights], None)
        before = torch.backends.mkldnn.matmul.fp32_precision
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        try:
            assert cache([weights], None)[0] is not first
        finally:
            torch.backends.mkldnn.matmul.fp32_precision = before


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_module_with_packed_weights_can_be_copied(duplicate):
    """The copy has the original's output."""
    linear, x = Linear(5, 3).requires_grad_(False), torch.randn(2, 5)
    with torch.no_grad():
        expected = linear(x)
        assert torch.equal(duplicate(linear)(x), expected)
