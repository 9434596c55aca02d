"""
Two patches of the trainer's callbacks:

- The confidence checks set hooks on every module of a model until the second batch, to find biases
  before normalization layers. In a recovered run they are never removed, and store every call of
  every module. Such a run now has none, and neither have the modules in `WITHOUT_HOOKS`.
- The callback `wandb` calls `wandb.util.generate_id`, which current versions of wandb lack:
  `AttributeError: module 'wandb.util' has no attribute 'generate_id'`. Another class is registered
  under this name, with the same parameters.
"""

import secrets
from typing import Any

from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import ConfidenceChecksCallback, TrainerCallback, WandBCallback
from torch import nn

WITHOUT_HOOKS: list[type[nn.Module]] = []
"""Classes without normalization that are slower with hooks; nothing in them gets hooks either."""

_on_start = ConfidenceChecksCallback.on_start


def _check_unless_recovered(
    self: ConfidenceChecksCallback,
    trainer: GradientDescentTrainer,
    is_primary: bool = True,
    **kwargs: Any,
) -> None:
    epochs = trainer._start_after_epochs_completed
    is_recovered = epochs or trainer._start_after_batches_in_epoch_completed
    _on_start(self, trainer, is_primary and not is_recovered, **kwargs)


def _register_hooks(self: NormalizationBiasVerification) -> None:
    left_out = {
        part
        for module in self.model.modules()
        if isinstance(module, tuple(WITHOUT_HOOKS))
        for part in module.modules()
    }
    self._hook_handles = [
        module.register_forward_hook(self._create_hook(name))
        for name, module in self.model.named_modules()
        if module not in left_out
    ]


@TrainerCallback.register("wandb", exist_ok=True)
class CurrentWandBCallback(WandBCallback):
    """
    AllenNLP's callback for Weights & Biases, which names the run itself.

    Registered as a `TrainerCallback` with name "wandb", instead of AllenNLP's.
    """

    def on_start(self, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        if is_primary and self._run_id is None:
            self._run_id = secrets.token_hex(4)
        super().on_start(trainer, is_primary=is_primary, **kwargs)


ConfidenceChecksCallback.on_start = _check_unless_recovered  # type: ignore[method-assign]
NormalizationBiasVerification.register_hooks = _register_hooks  # type: ignore[method-assign]
