import torch

from elmo_plugin.modules import LSTMState
from tests.random_bilm import random_bilm, random_state


def rows_of(numbers: list[int]) -> LSTMState:
    """Returns a state of one layer in which all numbers of row r are `numbers[r]`."""
    row = torch.tensor(numbers, dtype=torch.float).view(1, 1, -1, 1)
    return LSTMState(row.expand(1, 2, -1, 3), row.expand(1, 2, -1, 2))


def numbers_of(state: LSTMState) -> list[int]:
    for x in state:
        assert torch.equal(x, x[:1, :1, :, :1].expand_as(x))
    assert torch.equal(state.memory[0, 0, :, 0], state.output[0, 0, :, 0])
    return state.memory[0, 0, :, 0].int().tolist()


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
    assert state.n_rows == 5


def test_rows_are_chosen_by_number_and_by_mask():
    """The expected rows are written out by hand."""
    state = rows_of([1, 2, 3])
    assert numbers_of(state.select(torch.tensor([2, 0, 2]))) == [3, 1, 3]
    chosen = torch.tensor([True, False, True])
    assert numbers_of(state.where(chosen, rows_of([7, 8, 9]))) == [7, 2, 9]
    assert numbers_of(rows_of([4]).expand(3)) == [4, 4, 4]


def test_no_gradient_flows_from_window_to_window():
    """The state that a biLM returns has no gradient."""
    bilm, _ = random_bilm()
    tokens = bilm.boundaries
    steps = torch.tensor([[0, 1], [1, 0]])
    layers, after = bilm(tokens, steps, steps, random_state(bilm, 2))
    assert layers[-1].requires_grad
    assert not after.memory.requires_grad and not after.output.requires_grad
