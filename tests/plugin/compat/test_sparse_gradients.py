from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from allennlp.training import GradientDescentTrainer

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.compat.sparse_gradients import clip_grad_norm_


class Words(torch.nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(10, 3, sparse=sparse)
        self.linear = torch.nn.Linear(3, 1)
        # A word that occurs twice has two rows in a sparse gradient.
        self.linear(self.embedding(torch.tensor([1, 4, 1, 7]))).sum().backward()


@pytest.mark.parametrize("max_norm", [0.1, 1000.0])
def test_as_with_a_dense_gradient(max_norm):
    """Expected: PyTorch's own norm and clipped gradients for the same model with a dense embedding.
    Without the patch, PyTorch raises `NotImplementedError`."""
    dense, sparse = Words(sparse=False), Words(sparse=True)
    norms = []
    for model in (dense, sparse):
        trainer = SimpleNamespace(
            model=model, _grad_norm=max_norm, _scaler=None, _ddp_wrapped_model=None
        )
        norms.append(GradientDescentTrainer.rescale_gradients(trainer))
    assert norms[1] == pytest.approx(norms[0], rel=1e-6)
    assert sparse.embedding.weight.grad.is_sparse
    for expected, found in zip(dense.parameters(), sparse.parameters()):
        torch.testing.assert_close(found.grad.to_dense(), expected.grad)


def test_rows_that_the_optimizer_exchanges_later():
    """In several processes, each would clip by the norm of its own rows."""
    model = Words(sparse=True)
    for parameter in model.parameters():
        parameter.takes_sparse_gradients = True
    clip_grad_norm_(model.parameters(), 0.1)
    with (
        patch("elmo_plugin.plugin.compat.sparse_gradients.is_distributed", return_value=True),
        pytest.raises(InputError, match="grad_norm: expected false in several processes"),
    ):
        clip_grad_norm_(model.parameters(), 0.1)
