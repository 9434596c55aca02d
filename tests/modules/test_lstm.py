"""These tests compare the fast path of the LSTMs with their equation, which `test_bilm.py` compares
with the oracle."""

from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from elmo_plugin.modules import BiLSTM, LSTMState, ProjectedLSTM
from elmo_plugin.ops.lstm import reference_lstm
from tests.compare import assert_close
from tests.random_bilm import randomize

pytestmark = pytest.mark.usefixtures("lstm_path")

SCAN = "elmo_plugin.modules.lstm.lstm_scan"
N_STEPS, N_ROWS, INPUT, DIM, PROJECTION, N_LAYERS = 9, 4, 5, 7, 3, 3

VARIANTS = {
    "projected, clipped": (PROJECTION, 0.4, 0.3),
    "projected, cell clipped": (PROJECTION, 0.4, None),
    "projected, projection clipped": (PROJECTION, None, 0.3),
    "projected": (PROJECTION, None, None),
    "clipped": (DIM, 0.4, 0.3),
    "plain": (DIM, None, None),
}
BATCH_SIZES = {
    "all rows": None,
    "falling": [4, 4, 3, 3, 3, 1, 1, 1, 1],
    "all rows, given": [4] * N_STEPS,
    "a row never read": [3] * N_STEPS,
}


def lstm_of(variant: str) -> ProjectedLSTM:
    torch.manual_seed(0)
    projection_dim, cell_clip, proj_clip = VARIANTS[variant]
    lstm = ProjectedLSTM(
        input_dim=INPUT,
        dim=DIM,
        projection_dim=projection_dim,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
    )
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return lstm


def random_inputs(lstm: ProjectedLSTM) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(2, N_STEPS, N_ROWS, INPUT),
        0.3 * torch.randn(2, N_ROWS, DIM),
        0.2 * torch.randn(2, N_ROWS, lstm.projection_dim),
    )


@pytest.mark.parametrize("batch_sizes", BATCH_SIZES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_values_and_gradients_are_the_references(variant, batch_sizes):
    """The expected values are those of the equation, differentiated by autograd, for a random
    gradient of all outputs. Values agree within 1e-5 with and without autograd, and gradients
    within 1e-4."""
    lstm, sizes = lstm_of(variant), BATCH_SIZES[batch_sizes]
    inputs, cell, hidden = random_inputs(lstm)
    inputs.requires_grad_()
    parameters = dict(lstm.named_parameters(), inputs=inputs)
    with mock.patch(SCAN, reference_lstm):
        expected = lstm(inputs, cell, hidden, sizes)
    weight = torch.randn_like(expected[0])
    gradients = torch.autograd.grad((expected[0] * weight).sum(), [*parameters.values()])

    found = lstm(inputs, cell, hidden, sizes)
    with torch.no_grad():
        without_autograd = lstm(inputs, cell, hidden, sizes)
    for name, value, plain, reference in zip("hch", found, without_autograd, expected):
        assert_close(value, reference, atol=1e-5, what=f"{name} with autograd")
        assert_close(plain, reference, atol=1e-5, what=f"{name} without autograd")
    own_gradients = torch.autograd.grad((found[0] * weight).sum(), [*parameters.values()])
    for name, gradient, reference in zip(parameters, own_gradients, gradients):
        assert_close(gradient, reference, atol=1e-4, what=f"gradient of {name}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_the_slopes(variant):
    """The expected slopes are differences of the values themselves, in float64, for the inputs and
    for each parameter in a random direction."""
    lstm = lstm_of(variant).double()
    inputs, cell, hidden = (x.double() for x in random_inputs(lstm))
    tensors = {"inputs": inputs.requires_grad_(), **dict(lstm.named_parameters())}
    weight = torch.randn(2, 3, N_ROWS, lstm.projection_dim, dtype=torch.float64)

    def value() -> Tensor:
        return (lstm(inputs[:, :3], cell, hidden, [4, 3, 3])[0] * weight).sum()

    gradients = torch.autograd.grad(value(), [*tensors.values()])
    for (name, x), gradient in zip(tensors.items(), gradients):
        step = 1e-6 * torch.randn_like(x)
        with torch.no_grad():
            x.add_(step)
            after = value()
            x.sub_(2 * step)
            before = value()
            x.add_(step)
        slope = (gradient * step).sum()
        assert_close((after - before) / 2e-6, slope / 1e-6, atol=1e-6, what=f"slope of {name}")


def test_clips_bite():
    """A clip keeps every number within its bounds, and some numbers equal them."""
    lstm = lstm_of("projected, clipped")
    outputs, cell, _ = lstm(*random_inputs(lstm))
    assert outputs.abs().max() == torch.tensor(0.3)
    assert cell.abs().max() == torch.tensor(0.4)


def test_inputs_after_the_end_of_a_row_are_not_read():
    """A row of a batch gives the numbers that it gives alone, cut to its length. After its end
    outputs are zeros, the state is that of its last step, and inputs have no effect on
    gradients."""
    lstm, sizes = lstm_of("projected, clipped"), [4, 4, 3, 3, 2, 2, 1, 1, 1]
    inputs, cell, hidden = random_inputs(lstm)
    lengths = [sum(size > row for size in sizes) for row in range(N_ROWS)]
    outputs, c, h = lstm(inputs, cell, hidden, sizes)
    for row, length in enumerate(lengths):
        assert not outputs[:, length:, row].any()
        assert torch.equal(h[:, row], outputs[:, length - 1, row])
        one = slice(row, row + 1)
        alone = lstm(inputs[:, :length, one], cell[:, one], hidden[:, one])
        assert_close(outputs[:, :length, one], alone[0], atol=1e-6, what=f"row {row}")
        assert_close(c[:, one], alone[1], atol=1e-6, what=f"cell of row {row}")
    outputs.sum().backward()
    found = {name: parameter.grad for name, parameter in lstm.named_parameters()}
    lstm.zero_grad()
    for row, length in enumerate(lengths):
        inputs[:, length:, row] += 100.0
    lstm(inputs, cell, hidden, sizes)[0].sum().backward()
    for name, parameter in lstm.named_parameters():
        assert torch.equal(found[name], parameter.grad), name


@pytest.mark.parametrize("grad", [False, True])
def test_the_given_state_is_not_modified(grad):
    """The caller may use its tensors afterwards."""
    lstm = lstm_of("projected, clipped")
    given = random_inputs(lstm)
    copies = [x.clone() for x in given]
    with torch.set_grad_enabled(grad):
        lstm(*given)
    assert all(map(torch.equal, given, copies))


@pytest.mark.parametrize("trained", [False, True])
def test_no_gradient_flows_into_the_given_state(trained):
    """The cell and the output before the first step are data, also where nothing else has a
    gradient."""
    lstm = lstm_of("projected, clipped").requires_grad_(trained)
    inputs, cell, hidden = random_inputs(lstm)
    results = lstm(inputs, cell.requires_grad_(), hidden.requires_grad_())
    assert [x.requires_grad for x in results] == [trained, False, False]
    if trained:
        results[0].sum().backward()
    assert cell.grad is None and hidden.grad is None


def test_no_steps():
    """By hand: no outputs, the given state, and gradients of zero."""
    lstm = lstm_of("projected, clipped")
    _, cell, hidden = random_inputs(lstm)
    outputs, c, h = lstm(torch.zeros(2, 0, N_ROWS, INPUT), cell, hidden)
    assert outputs.shape == (2, 0, N_ROWS, PROJECTION)
    assert torch.equal(c, cell) and torch.equal(h, hidden)
    outputs.sum().backward()
    assert not any(parameter.grad.any() for parameter in lstm.parameters())


def test_gradients_of_outputs_that_are_padding_are_not_read():
    """A loss over padding may give NaN there. Expected: the gradients with zeros instead."""
    lstm, sizes = lstm_of("projected, clipped"), BATCH_SIZES["falling"]
    inputs, cell, hidden = random_inputs(lstm)
    padding = torch.arange(N_ROWS) >= torch.tensor(sizes)[:, None]  # (T, B)
    gradients = []
    for value in (0.0, torch.nan):
        lstm.zero_grad()
        outputs, *_ = lstm(inputs, cell, hidden, sizes)
        upstream = torch.ones_like(outputs)
        upstream[:, padding] = value
        outputs.backward(upstream)
        gradients.append([parameter.grad for parameter in lstm.parameters()])
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize("sizes", [(4, 7, 3), (5, 6, 3), (5, 7, 2), (5, 7, 7)])
def test_vectors_of_other_sizes_are_refused(sizes):
    """Packed weights have padding, into which a few numbers more or less would fit."""
    inputs, cell, hidden = (torch.zeros(2, *shape) for shape in ((1, 1), (1,), (1,)))
    tensors = [x.unsqueeze(-1).expand(*x.shape, n) for x, n in zip((inputs, cell, hidden), sizes)]
    with pytest.raises(ValueError, match=r"numbers each, found \("):
        lstm_of("projected")(*tensors)


@pytest.mark.parametrize("batch_sizes", [[1, 2], [2], [3, 3], [2, -1], [2, 2, 2]])
def test_batch_sizes_that_are_not_descending_are_refused(batch_sizes):
    """Two rows of two steps. A row that begins late would start from zeros, a missing step would
    give zeros."""
    lstm = lstm_of("projected")
    inputs, cell, hidden = (x[..., :2, :] for x in random_inputs(lstm))
    with pytest.raises(ValueError, match="batch_sizes: expected 2 numbers in descending order"):
        lstm(inputs[:, :2], cell, hidden, batch_sizes)


def test_initial_values_are_tensorflows():
    """The expected distribution is Glorot uniform over TensorFlow's joint kernel of
    `(input + P, 4D)`, whose bound is sqrt(6 / (fan_in + fan_out)), and zeros for the bias. With
    6,656 numbers the largest is within 1 % of the bound."""
    torch.manual_seed(0)
    lstm = ProjectedLSTM(input_dim=24, dim=32, projection_dim=28, cell_clip=None, proj_clip=None)
    kernel = torch.cat([lstm.input_weight, lstm.recurrent_weight], dim=1)
    for weight in (kernel, lstm.projection_weight):
        bound = (6 / (weight.size(1) + weight.size(2))) ** 0.5
        assert 0.99 * bound < weight.max() <= bound
        assert -bound <= weight.min() < -0.99 * bound
    assert not lstm.bias.any()


def test_gradients_with_checkpointing_are_the_same():
    """Expected: the gradients without it. PyTorch's gradient checkpointing computes what a layer
    keeps a second time, and permits to read it once."""
    lstm = lstm_of("projected, clipped")
    arguments = random_inputs(lstm)
    gradients = []
    for outputs in (lstm(*arguments)[0], checkpoint(lstm, *arguments, use_reentrant=False)[0]):
        gradients.append(torch.autograd.grad(outputs.square().sum(), list(lstm.parameters())))
    assert all(map(torch.equal, *gradients))


def test_two_losses_of_one_pass():
    """By linearity, the gradients of two losses in turn add up to those of their sum."""
    lstm = lstm_of("projected, clipped")
    outputs, _, _ = lstm(*random_inputs(lstm))
    losses = outputs.square().sum(), outputs.sin().sum()
    expected = torch.autograd.grad(sum(losses), list(lstm.parameters()), retain_graph=True)
    for loss in losses:
        loss.backward(retain_graph=True)
    for parameter, gradient in zip(lstm.parameters(), expected):
        assert_close(parameter.grad, gradient, atol=1e-4, what="gradient")


@pytest.mark.parametrize("loss", [torch.sum, lambda x: x.square().sum()])
def test_second_gradients_are_refused(loss):
    """The error also comes if the incoming gradient is a constant."""
    lstm = lstm_of("plain")
    outputs, _, _ = lstm(*random_inputs(lstm))
    with pytest.raises(NotImplementedError, match="create_graph"):
        torch.autograd.grad(loss(outputs), list(lstm.parameters()), create_graph=True)


def bilstm_of(use_skip_connections: bool = True, dropout: float = 0.0) -> BiLSTM:
    torch.manual_seed(0)
    bilstm = BiLSTM(
        n_layers=N_LAYERS,
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
    assert torch.equal(state.cell[:, 0], other_state.cell[:, 0])
    outputs[-1][0].sum().backward()
    assert inputs.grad[0].any() and not inputs.grad[1].any()


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

    monkeypatch.setattr(SCAN, reference_lstm)
    torch.manual_seed(1)
    x = inputs
    for k, (layer, found) in enumerate(zip(bilstm.layers, outputs, strict=True)):
        dropped = torch.nn.functional.dropout(x, 0.4)
        y, _, _ = layer(dropped, zero.cell[k], zero.hidden[k])
        x = y + dropped if use_skip_connections and k > 0 else y
        assert_close(found, x, atol=1e-5, what=f"layer {k + 1}")


def test_gradients_of_the_stack_are_autograds(monkeypatch):
    """The expected gradients come from autograd with the equation instead of every layer's fast
    path, within 1e-4, for rows of unequal length."""
    bilstm, sizes = bilstm_of(), BATCH_SIZES["falling"]
    inputs = torch.randn(2, N_STEPS, N_ROWS, PROJECTION, requires_grad=True)
    weight = torch.randn(2, N_STEPS, N_ROWS, PROJECTION)
    parameters = dict(bilstm.named_parameters(), inputs=inputs)
    gradients = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(SCAN, reference_lstm)
        outputs, _ = bilstm(inputs, bilstm.zero_state(N_ROWS), sizes)
        loss = sum((y * weight).sum() for y in outputs)
        gradients.append(torch.autograd.grad(loss, [*parameters.values()]))
    for name, found, expected in zip(parameters, *gradients):
        assert_close(found, expected, atol=1e-4, what=f"gradient of {name}")


def rows_of(numbers: list[int]) -> LSTMState:
    """Return a state of one layer in which all numbers of row r are `numbers[r]`."""
    row = torch.tensor(numbers, dtype=torch.float).view(1, 1, -1, 1)
    return LSTMState(row.expand(1, 2, -1, 3), row.expand(1, 2, -1, 2))


def numbers_of(state: LSTMState) -> list[int]:
    for x in state:
        assert torch.equal(x, x[:1, :1, :, :1].expand_as(x))
    assert torch.equal(state.cell[0, 0, :, 0], state.hidden[0, 0, :, 0])
    return state.cell[0, 0, :, 0].int().tolist()


def test_batches_of_different_sizes_are_bilm_tfs():
    """As with bilm-tf's state variables, a smaller batch reads and writes the first rows and leaves
    the others unchanged. Rows that no batch had start from zero."""
    state = rows_of([1, 2, 3])
    assert numbers_of(state.take(2)) == [1, 2]
    state = state.put(rows_of([11, 12]))
    assert numbers_of(state) == [11, 12, 3]
    assert numbers_of(state.take(5)) == [11, 12, 3, 0, 0]
    state = state.put(rows_of([21, 22, 23, 24, 25]))
    assert numbers_of(state) == [21, 22, 23, 24, 25]
    assert numbers_of(state.take(1)) == [21]
    assert state.batch_size == 5


def test_rows_are_chosen_by_number_and_by_mask():
    """The expected rows are written out by hand."""
    state = rows_of([1, 2, 3])
    assert numbers_of(state.select(torch.tensor([2, 0, 2]))) == [3, 1, 3]
    chosen = torch.tensor([True, False, True])
    assert numbers_of(state.where(chosen, rows_of([7, 8, 9]))) == [7, 2, 9]
    assert numbers_of(rows_of([4]).expand(3)) == [4, 4, 4]


def test_stored_names():
    """Checkpoints and files of earlier versions have c as `memory` and h as `output`."""
    state = rows_of([1, 2])
    stored = state.stored()
    assert stored["memory"] is state.cell and stored["output"] is state.hidden
    again = LSTMState.from_stored(stored, state.cell.device)
    assert again.cell is state.cell and again.hidden is state.hidden


@pytest.mark.parametrize("name", ["input_weight", "recurrent_weight", "projection_weight"])
def test_weights_of_several_types(name):
    """One weight in bf16 rounds the outputs, and the kernels for one type leave it to PyTorch."""
    lstm = ProjectedLSTM(input_dim=20, dim=70, projection_dim=20, cell_clip=3.0, proj_clip=3.0)
    states = torch.zeros(2, 2, 70), torch.zeros(2, 2, 20)
    x = torch.randn(2, 3, 2, 20)
    expected = lstm(x, *states)[0]
    setattr(lstm, name, torch.nn.Parameter(getattr(lstm, name).detach().bfloat16()))
    for is_frozen in (False, True):
        found = lstm.requires_grad_(not is_frozen)(x, *states)[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-2)
