"""
AllenNLP's learning rate scheduler `reduce_on_plateau` passes `verbose` to PyTorch's scheduler,
which PyTorch 2.7 removed: `TypeError: ... got an unexpected keyword argument 'verbose'`.

This module registers another class under this name, with the same parameters except `verbose`.
Remove it when AllenNLP no longer passes `verbose`.
"""

from typing import Any

from allennlp.training.learning_rate_schedulers import (
    LearningRateScheduler,
    ReduceOnPlateauLearningRateScheduler,
)
from allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers import (
    _PyTorchLearningRateSchedulerWithMetricsWrapper,
)
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau


@LearningRateScheduler.register("reduce_on_plateau", exist_ok=True)
class ReduceOnPlateau(ReduceOnPlateauLearningRateScheduler):
    """
    AllenNLP's scheduler of this name without the parameter `verbose`.

    Registered as a `LearningRateScheduler` with name "reduce_on_plateau", in place of AllenNLP's.
    """

    def __init__(self, optimizer: Optimizer, **kwargs: Any) -> None:
        scheduler = ReduceLROnPlateau(optimizer, **kwargs)
        # Bypasses AllenNLP's `__init__`, which fails.
        _PyTorchLearningRateSchedulerWithMetricsWrapper.__init__(self, scheduler)  # type: ignore[arg-type]
