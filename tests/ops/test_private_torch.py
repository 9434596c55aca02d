import pytest
import torch

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import private_torch
from elmo_plugin.ops.lstm import lstm_scan, pack_lstm_weights
from tests.compare import assert_close


def results(lstm: ProjectedLSTM, inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return outputs with packed weights, and gradients of two backward passes over one graph."""
    state = torch.zeros(2, 3, 6), torch.zeros(2, 3, 4)
    with torch.no_grad():
        outputs = lstm_scan(inputs, *state, pack_lstm_weights(lstm.weights()))[0]
    loss = lstm(inputs, *state)[0].square().sum()
    parameters = list(lstm.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    return [outputs, *first, *torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize(
    "missing", ["_linear_pointwise", "_reorder_linear_weight", "_is_bf16_supported"]
)
def test_a_pytorch_without_the_operator_gives_the_same(missing, monkeypatch):
    """The expected results are those with all operators, which a build of PyTorch without oneDNN
    lacks."""
    torch.manual_seed(0)
    lstm = ProjectedLSTM(input_dim=5, dim=6, projection_dim=4, cell_clip=3.0, proj_clip=3.0)
    inputs = torch.randn(2, 7, 3, 5)
    expected = results(lstm, inputs)
    monkeypatch.setattr(private_torch, missing, None)
    monkeypatch.setattr(private_torch, "ONEDNN_DTYPES", private_torch._onednn_dtypes())
    for found, reference in zip(results(lstm, inputs), expected):
        assert_close(found, reference, atol=1e-5, what=f"without {missing}")
