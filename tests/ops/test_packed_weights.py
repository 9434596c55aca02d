import torch

from elmo_plugin.ops.linear import batched_matmul, pack_weights
from tests.compare import assert_close


def test_products_with_packed_weights():
    """Expected: `torch.bmm`."""
    weights, x = torch.randn(2, 3, 5), torch.randn(2, 4, 3)
    expected = torch.bmm(x, weights)
    [packed] = pack_weights([weights])
    assert_close(batched_matmul(x, packed), expected, atol=1e-5, what="product")
    out = torch.ones(2, 4, 5)
    batched_matmul(x, packed, out=out, add=True)
    assert_close(out, expected + 1, atol=1e-5, what="sum")
