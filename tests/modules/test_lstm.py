"""These tests compare the fast path of the LSTMs with their equation, which `test_bilm.py` compares
with the oracle."""

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
FALLING = [4, 4, 3, 3, 3, 1, 1, 1, 1]


def projected_lstm() -> ProjectedLSTM:
    torch.manual_seed(0)
    lstm = ProjectedLSTM(
        input_dim=INPUT, dim=DIM, projection_dim=PROJECTION, cell_clip=0.4, proj_clip=0.3
    )
    randomize(lstm, std=0.5)
    return lstm


def random_inputs() -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.randn(2, N_STEPS, N_ROWS, INPUT),
        0.3 * torch.randn(2, N_ROWS, DIM),
        0.2 * torch.randn(2, N_ROWS, PROJECTION),
    )


def test_nothing_after_the_end_of_a_row_is_read():
    """A row of a batch gives the numbers that it gives alone, cut to its length. After its end
    outputs are zeros, the state is that of its last step, and neither inputs nor incoming
    gradients, which are NaN if a loss over padding is, have an effect on gradients."""
    lstm, (inputs, cell, hidden) = projected_lstm(), random_inputs()
    outputs, c, h = lstm(inputs, cell, hidden, FALLING)
    for row in range(N_ROWS):
        length, one = sum(size > row for size in FALLING), slice(row, row + 1)
        assert not outputs[:, length:, row].any()
        assert torch.equal(h[:, row], outputs[:, length - 1, row])
        alone = lstm(inputs[:, :length, one], cell[:, one], hidden[:, one])
        assert_close(outputs[:, :length, one], alone[0], atol=1e-6, what=f"row {row}")
        assert_close(c[:, one], alone[1], atol=1e-6, what=f"cell of row {row}")
    padding = torch.arange(N_ROWS) >= torch.tensor(FALLING)[:, None]  # (T, B)
    upstream, gradients = torch.ones_like(outputs), []
    for of_inputs, of_outputs in ((0.0, 0.0), (100.0, torch.nan)):
        inputs[:, padding], upstream[:, padding] = of_inputs, of_outputs
        outputs, _, _ = lstm(inputs, cell, hidden, FALLING)
        gradients.append(torch.autograd.grad(outputs, list(lstm.parameters()), upstream))
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize("trained", [False, True])
def test_the_given_state_is_only_read(trained):
    """The cell and the output before the first step are data, also where nothing else has a
    gradient, and the caller may use them afterwards."""
    lstm, given = projected_lstm().requires_grad_(trained), random_inputs()
    copies, (_, cell, hidden) = [x.clone() for x in given], given
    results = lstm(given[0], cell.requires_grad_(), hidden.requires_grad_())
    assert [x.requires_grad for x in results] == [trained, False, False]
    if trained:
        results[0].sum().backward()
    assert cell.grad is None and hidden.grad is None
    assert all(map(torch.equal, given, copies))


@pytest.mark.parametrize("sizes", [(4, 7, 3), (5, 6, 3), (5, 7, 2), (5, 7, 7)])
def test_vectors_of_other_sizes_are_refused(sizes):
    """Packed weights have padding, into which a few numbers more or less would fit."""
    shapes = (2, 1, 1), (2, 1), (2, 1)
    with pytest.raises(ValueError, match=r"numbers each, found \("):
        projected_lstm()(*(torch.zeros(*shape, n) for shape, n in zip(shapes, sizes)))


@pytest.mark.parametrize("batch_sizes", [[1, 2], [2], [3, 3], [2, -1], [2, 2, 2]])
def test_batch_sizes_that_are_not_descending_are_refused(batch_sizes):
    """Two rows of two steps. A row that begins late would start from zeros, a missing step would
    give zeros."""
    inputs, cell, hidden = (x[..., :2, :] for x in random_inputs())
    with pytest.raises(ValueError, match="batch_sizes: expected 2 numbers in descending order"):
        projected_lstm()(inputs[:, :2], cell, hidden, batch_sizes)


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
    lstm, given = projected_lstm(), random_inputs()
    gradients = []
    for outputs in (lstm(*given)[0], checkpoint(lstm, *given, use_reentrant=False)[0]):
        gradients.append(torch.autograd.grad(outputs.square().sum(), list(lstm.parameters())))
    assert all(map(torch.equal, *gradients))


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


@pytest.mark.parametrize("sizes", [None, FALLING])
@pytest.mark.parametrize("use_skip_connections", [False, True])
def test_the_stack_is_its_equation(use_skip_connections, sizes, monkeypatch):
    """The expected values and gradients follow bilm-tf's order, layer by layer with the equation,
    differentiated by autograd: every layer reads its input after dropout, and from the second layer
    on this input is added to its output. The seed gives the masks. Rows may have unequal length."""
    bilstm = bilstm_of(use_skip_connections, dropout=0.4)
    inputs = torch.randn(2, N_STEPS, N_ROWS, PROJECTION, requires_grad=True)
    weight = torch.randn(2, N_STEPS, N_ROWS, PROJECTION)
    zero = bilstm.zero_state(N_ROWS)
    torch.manual_seed(1)
    outputs, (cell, hidden) = bilstm(inputs, zero, sizes)

    monkeypatch.setattr(SCAN, reference_lstm)
    torch.manual_seed(1)
    x, expected, states = inputs, [], []
    for k, layer in enumerate(bilstm.layers):
        dropped = torch.nn.functional.dropout(x, 0.4)
        y, *state = layer(dropped, zero.cell[k], zero.hidden[k], sizes)
        x = y + dropped if use_skip_connections and k > 0 else y
        expected.append(x)
        states.append(state)
    results, parameters = [], [inputs, *bilstm.parameters()]
    for values in (outputs, expected):
        loss = sum((y * weight).sum() for y in values)
        results.append([*values, *torch.autograd.grad(loss, parameters)])
    results[0] += [cell, hidden]
    results[1] += map(torch.stack, zip(*states))
    for found, right in zip(*results, strict=True):
        assert_close(found, right, atol=1e-4, what="values or gradients")


def test_no_dropout_in_evaluation():
    """By definition, a second evaluation is bit-identical, and training is not."""
    bilstm, inputs = bilstm_of(dropout=0.4), torch.randn(2, N_STEPS, N_ROWS, PROJECTION)
    zero = bilstm.zero_state(N_ROWS)
    trained = bilstm(inputs, zero)[0][-1]
    first, second = (bilstm.eval()(inputs, zero)[0][-1] for _ in "ab")
    assert torch.equal(first, second) and not torch.equal(first, trained)


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
    lstm, given = projected_lstm(), random_inputs()
    expected = lstm(*given)[0]
    setattr(lstm, name, torch.nn.Parameter(getattr(lstm, name).detach().bfloat16()))
    for is_frozen in (False, True):
        found = lstm.requires_grad_(not is_frozen)(*given)[0]
        assert_close(found, expected, atol=2e-2, what="outputs")
