import pytest
import torch

from elmo_plugin.ops.linear import Linear
from tests.compare import assert_close


@pytest.mark.parametrize("frozen", [False, True])
def test_linear_is_torchs(frozen):
    """The oracle is `torch.nn.functional.linear` with its gradients, in float64. A frozen layer has
    only the input's gradient."""
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
