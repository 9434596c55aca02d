import numpy as np
import torch

from elmo_plugin.modules.char_cnn import Highway
from tests.compare import assert_close
from tests.oracle import sigmoid


def test_highway_is_its_equation():
    """The expected values are those of bilm-tf's equation in NumPy, y = s relu(x Wt + bt) + (1 - s)
    x, in which the gate `carry` belongs to the transformed part."""
    torch.manual_seed(0)
    highway = Highway(dim=6)
    for parameter in highway.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, 4, 6)
    w_t, b_t, w_c, b_c = (
        parameter.detach().double().numpy()
        for linear in (highway.transform, highway.carry)
        for parameter in (linear.weight, linear.bias)
    )
    given = x.double().numpy()
    s = sigmoid(given @ w_c.T + b_c)
    expected = s * np.maximum(given @ w_t.T + b_t, 0) + (1 - s) * given
    assert_close(highway(x), expected, atol=1e-5, what="highway")


def test_initial_values_are_bilm_tfs():
    """The expected distribution is N(0, 1 / F) for both matrices. The bias is 0 for the transformed
    part and -2 for its gate, so that most of the input passes at first."""
    torch.manual_seed(0)
    highway = Highway(dim=100)
    for linear, bias in ((highway.transform, 0.0), (highway.carry, -2.0)):
        assert_close(linear.weight.std(), 0.1, atol=0.002, what="standard deviation")
        assert (linear.bias == bias).all()
