import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler


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
