import pytest
import torch

from elmo_plugin.modules import BiLSTM, projected_lstm
from elmo_plugin.ops.lstm_reference import reference_lstm
from tests.compare import assert_close
from tests.random_bilm import randomize

pytestmark = pytest.mark.usefixtures("lstm_path")

N_LAYERS, DIM, PROJECTION, N_STEPS, N_ROWS = 3, 6, 4, 5, 3


def bilstm_of(use_skip_connections: bool = True, dropout: float = 0.0) -> BiLSTM:
    torch.manual_seed(0)
    bilstm = BiLSTM(
        n_layers=N_LAYERS,
        input_dim=PROJECTION,
        dim=DIM,
        projection_dim=PROJECTION,
        cell_clip=3.0,
        proj_clip=3.0,
        use_skip_connections=use_skip_connections,
        dropout=dropout,
    )
    randomize(bilstm, std=0.4)
    return bilstm


def test_directions_never_see_each_other():
    """Another text in one direction changes neither outputs nor gradients of the other."""
    bilstm = bilstm_of()
    inputs = torch.randn(2, N_STEPS, N_ROWS, PROJECTION, requires_grad=True)
    outputs, state = bilstm(inputs, bilstm.zero_state(N_ROWS))
    other = torch.stack([inputs[0], torch.randn(N_STEPS, N_ROWS, PROJECTION)])
    others, other_state = bilstm(other, bilstm.zero_state(N_ROWS))
    for y, other_y in zip(outputs, others):
        assert torch.equal(y[0], other_y[0]) and not torch.equal(y[1], other_y[1])
    assert torch.equal(state.memory[:, 0], other_state.memory[:, 0])
    outputs[-1][0].sum().backward()
    assert inputs.grad[0].any() and not inputs.grad[1].any()


def test_zero_state_has_the_layers_shapes():
    """By definition, the state is zeros, D numbers of memory and P of output."""
    state = bilstm_of().zero_state(2)
    assert state.memory.shape == (N_LAYERS, 2, 2, DIM)
    assert state.output.shape == (N_LAYERS, 2, 2, PROJECTION)
    assert not state.memory.any() and not state.output.any()


@pytest.mark.parametrize("use_skip_connections", [False, True])
def test_dropout_is_on_the_input_that_the_residual_adds(use_skip_connections, monkeypatch):
    """The expected values follow bilm-tf's order, layer by layer with the equation: every layer
    reads its input after dropout, and from the second layer on this input is added to its output.
    The seed gives the masks."""
    bilstm = bilstm_of(use_skip_connections, dropout=0.4)
    inputs = torch.randn(2, N_STEPS, N_ROWS, PROJECTION)
    zero = bilstm.zero_state(N_ROWS)
    torch.manual_seed(1)
    outputs, _ = bilstm(inputs, zero)
    evaluated, _ = bilstm.eval()(inputs, zero)
    assert not torch.equal(evaluated[-1], outputs[-1])
    assert torch.equal(evaluated[-1], bilstm(inputs, zero)[0][-1])

    monkeypatch.setattr(projected_lstm, "lstm_scan", reference_lstm)
    torch.manual_seed(1)
    x = inputs
    for k, (layer, found) in enumerate(zip(bilstm.layers, outputs, strict=True)):
        dropped = torch.nn.functional.dropout(x, 0.4)
        y, _, _ = layer(dropped, zero.memory[k], zero.output[k])
        x = y + dropped if use_skip_connections and k > 0 else y
        assert_close(found, x, atol=1e-5, what=f"layer {k + 1}")


def test_gradients_of_the_stack_are_autograds(monkeypatch):
    """The expected gradients come from autograd with the equation in place of every layer's fast
    path, within 1e-4, for rows of unequal length."""
    bilstm, sizes = bilstm_of(), [3, 3, 2, 2, 1]
    inputs = torch.randn(2, N_STEPS, N_ROWS, PROJECTION, requires_grad=True)
    weight = torch.randn(2, N_STEPS, N_ROWS, PROJECTION)
    parameters = dict(bilstm.named_parameters(), inputs=inputs)
    gradients = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(projected_lstm, "lstm_scan", reference_lstm)
        outputs, _ = bilstm(inputs, bilstm.zero_state(N_ROWS), sizes)
        loss = sum((y * weight).sum() for y in outputs)
        gradients.append(torch.autograd.grad(loss, [*parameters.values()]))
    for name, found, expected in zip(parameters, *gradients):
        assert_close(found, expected, atol=1e-4, what=f"gradient of {name}")
