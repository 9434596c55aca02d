from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training import GradientDescentTrainer
from allennlp.training.learning_rate_schedulers import LearningRateScheduler

import allennlp_today  # noqa: F401


class Words(torch.nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(10, 3, sparse=sparse)
        self.linear = torch.nn.Linear(3, 1)
        # A word that occurs twice has two rows in a sparse gradient.
        self.linear(self.embedding(torch.tensor([1, 4, 1, 7]))).sum().backward()


@pytest.mark.parametrize("max_norm", [0.1, 1000.0])
def test_a_sparse_gradient_is_clipped_as_a_dense_one(max_norm):
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


def scheduler(**parameters) -> LearningRateScheduler:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    return LearningRateScheduler.from_params(
        Params({"type": "reduce_on_plateau", **parameters}), optimizer=optimizer
    )


def test_it_halves_the_rate_where_the_metric_stops_rising():
    """By hand, with the parameters of the published ESIM config: 0.7 is no better than 0.8.
    AllenNLP's own class raises `TypeError` here."""
    reduced = scheduler(factor=0.5, mode="max", patience=0)
    rates = []
    for accuracy in (0.5, 0.8, 0.7, 0.9):
        reduced.step(accuracy)
        rates.append(reduced.lr_scheduler.optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.5, 0.5]


def test_verbose_is_refused_by_its_name():
    """PyTorch no longer has this parameter."""
    with pytest.raises((TypeError, ConfigurationError), match="verbose"):
        scheduler(verbose=True)
