import pytest
import torch

from elmo_plugin.ops.take_rows import take_rows


@pytest.mark.parametrize("shape", [(6,), (6, 2), (6, 2, 3)])
@pytest.mark.parametrize("rows", [[4, 0, 4, 4], [5], []])
def test_values_and_gradient_are_those_of_indexing(shape, rows):
    """The oracle is PyTorch's indexing, whose gradient is dense; ours has only the rows that were
    taken. The numbers are whole, so that sums are the same in any order."""
    torch.manual_seed(0)
    table = torch.randint(9, shape).float().requires_grad_()
    taken = torch.tensor(rows, dtype=torch.long)
    weights = torch.randint(9, (len(rows), *shape[1:])).float()
    expected, found = table[taken], take_rows(table, taken)
    assert torch.equal(found, expected)
    (dense,) = torch.autograd.grad((weights * expected).sum(), table)
    (sparse,) = torch.autograd.grad((weights * found).sum(), table)
    assert sparse.is_sparse and torch.equal(sparse.to_dense(), dense)
    assert sparse.coalesce().indices()[0].tolist() == sorted(set(rows))


def test_gradients_of_two_batches_add_up():
    """The expected gradient is that of both batches at once. AllenNLP accumulates gradients over
    batches."""
    table = torch.ones(4, 2, requires_grad=True)
    for rows in ([1, 2], [2, 3]):
        take_rows(table, torch.tensor(rows)).sum().backward()
    assert table.grad is not None and table.grad.is_sparse
    assert table.grad.to_dense().tolist() == [[0, 0], [1, 1], [2, 2], [1, 1]]
