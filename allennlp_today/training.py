"""
Two patches of training with PyTorch 2:

- The trainer's `grad_norm` calls PyTorch's `clip_grad_norm_`, which does not support the gradient
  of an embedding with `sparse: true`: `Could not run 'aten::linalg_vector_norm' with arguments from
  the 'SparseCPU' backend`. AllenNLP now calls a version that passes the rows of such a gradient to
  PyTorch's function. Remove it when PyTorch supports such gradients again.
- The learning rate scheduler `reduce_on_plateau` passes `verbose` to PyTorch's scheduler, which
  PyTorch 2.7 removed: `TypeError: ... got an unexpected keyword argument 'verbose'`. Another class
  is registered under this name, with the same parameters except `verbose`. Remove it when AllenNLP
  no longer passes `verbose`.
"""

from collections.abc import Iterable
from typing import Any

import torch
from allennlp.nn.parallel import ddp_accelerator
from allennlp.training import gradient_descent_trainer, util
from allennlp.training.learning_rate_schedulers import (
    LearningRateScheduler,
    ReduceOnPlateauLearningRateScheduler,
)
from allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers import (
    _PyTorchLearningRateSchedulerWithMetricsWrapper,
)
from torch.nn.utils import clip_grad_norm_ as clip_dense_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau


def clip_grad_norm_(parameters: Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    """PyTorch's function of this name, for dense and sparse gradients."""
    return clip_dense_grad_norm_([with_dense_gradient(p) for p in parameters], *args, **kwargs)


def with_dense_gradient(parameter: torch.Tensor) -> torch.Tensor:
    """
    `parameter`, or a tensor whose gradient shares memory with the rows of its sparse gradient.
    """
    if parameter.grad is None or not parameter.grad.is_sparse:
        return parameter
    # A row can occur several times in the gradient; the occurrences are added.
    parameter.grad = parameter.grad.coalesce()
    rows = parameter.grad.values()
    stand_in = torch.empty_like(rows)
    stand_in.grad = rows
    return stand_in


@LearningRateScheduler.register("reduce_on_plateau", exist_ok=True)
class ReduceOnPlateau(ReduceOnPlateauLearningRateScheduler):
    """
    AllenNLP's scheduler of this name without the parameter `verbose`.

    Registered as a `LearningRateScheduler` with name "reduce_on_plateau", instead of AllenNLP's.
    """

    def __init__(self, optimizer: Optimizer, **kwargs: Any) -> None:
        scheduler = ReduceLROnPlateau(optimizer, **kwargs)
        # Bypasses AllenNLP's `__init__`, which fails.
        _PyTorchLearningRateSchedulerWithMetricsWrapper.__init__(self, scheduler)  # type: ignore[arg-type]


for module in (gradient_descent_trainer, ddp_accelerator, util):
    module.clip_grad_norm_ = clip_grad_norm_  # type: ignore[attr-defined]
