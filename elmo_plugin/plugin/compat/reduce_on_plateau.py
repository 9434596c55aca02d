"""
AllenNLP's learning rate scheduler `reduce_on_plateau` passes `verbose` to PyTorch's, which does not
take it any more since PyTorch 2.7: `TypeError: ... got an unexpected keyword argument 'verbose'`.

Here another class is registered under this name, with the same parameters except `verbose`. This
can go when AllenNLP no longer passes `verbose`.
"""

from typing import List, Union

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
    AllenNLP's scheduler of this name, without the parameter `verbose`.

    Registered as a `LearningRateScheduler` with name "reduce_on_plateau", in place of AllenNLP's.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold_mode: str = "rel",
        threshold: float = 1e-4,
        cooldown: int = 0,
        min_lr: Union[float, List[float]] = 0,
        eps: float = 1e-8,
    ) -> None:
        scheduler = ReduceLROnPlateau(
            optimizer,
            mode=mode,  # type: ignore[arg-type]
            factor=factor,
            patience=patience,
            threshold_mode=threshold_mode,  # type: ignore[arg-type]
            threshold=threshold,
            cooldown=cooldown,
            min_lr=min_lr,
            eps=eps,
        )
        # Not through AllenNLP's own `__init__`, which is what fails.
        _PyTorchLearningRateSchedulerWithMetricsWrapper.__init__(self, scheduler)  # type: ignore[arg-type]
