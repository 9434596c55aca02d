"""
Two patches of distributed training:

- Its workers go on if their parent is stopped: after SIGTERM or Ctrl-C, the parent waits for them
  forever, and after SIGKILL they get SIGINT from PyTorch, which processes ignore that a shell
  started in the background. Now the parent stops its workers before it ends, and workers whose
  parent is gone get SIGTERM. Remove it when AllenNLP's `train_model` stops its workers.
- With `evaluate_on_test`, only the first process evaluates, on its own part of the data, and its
  metrics wait for the others, which have ended: an error or a hang after the training, without
  `metrics.json` and archive. Now all processes evaluate their parts together, as in validation,
  which knows no `batch_weight_key`. Remove it when AllenNLP's `TrainModel` does so.
"""

import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from allennlp.commands import train
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import int_to_device, is_distributed
from allennlp.nn.util import dist_reduce_sum
from allennlp.training import GradientDescentTrainer
from allennlp.training.util import get_metrics
from torch import multiprocessing
from torch.multiprocessing import _prctl_pr_set_pdeathsig  # type: ignore[attr-defined]

_run = train.TrainModel.run


def spawn(function: Callable[..., None], args: tuple[Any, ...], nprocs: int) -> None:
    """Run a function in several processes, as PyTorch's `spawn` does, none of which survives."""
    # Looked up here, because tests let it fork.
    context = multiprocessing.spawn(_end_with_parent, (function, *args), nprocs, join=False)
    try:
        while not context.join():
            pass
    finally:
        for process in context.processes:
            process.terminate()


def _end_with_parent(rank: int, function: Callable[..., None], *args: Any) -> None:
    _prctl_pr_set_pdeathsig(signal.SIGTERM)
    function(rank, *args)


def validate(trainer: GradientDescentTrainer, epoch: int) -> dict[str, float]:
    """The validation metrics of all processes, as the trainer computes them after an epoch."""
    with torch.no_grad():
        loss, reg_loss, n_batches = trainer._validation_loss(epoch)
        return get_metrics(
            trainer.model,
            dist_reduce_sum(loss),
            None if reg_loss is None else dist_reduce_sum(reg_loss),
            batch_loss=None,
            batch_reg_loss=None,
            num_batches=dist_reduce_sum(n_batches),
            reset=True,
        )


def _run_and_test(self: train.TrainModel) -> dict[str, Any]:
    trainer: Any = self.trainer
    loader = self.evaluation_data_loader
    if not self.evaluate_on_test or loader is None or not is_distributed():
        return _run(self)
    if self.batch_weight_key:
        raise ConfigurationError(
            "batch_weight_key: expected none for evaluate_on_test in distributed training, found "
            f"{self.batch_weight_key}"
        )
    metrics = _run(self)
    loader.set_target_device(int_to_device(trainer.cuda_device))
    trainer._validation_data_loader = loader
    found = validate(trainer, trainer._epochs_completed)
    # `finish`, which only the first process calls, evaluates no more.
    self.evaluation_data_loader = None  # type: ignore[assignment]
    return metrics | {f"test_{key}": value for key, value in found.items()}


train.TrainModel.run = _run_and_test  # type: ignore[method-assign]
train.mp = SimpleNamespace(spawn=spawn)  # type: ignore[assignment]
