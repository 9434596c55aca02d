"""
AllenNLP's trainer sets hooks on every module of a model until the second batch, to find biases
before normalization layers. In a recovered run the hooks stay, and remember every call of every
module. Importing this module sets none in a recovered run. It exempts biLMs, which have no
normalization and whose caches hooks disable.
"""

from typing import Any

from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import ConfidenceChecksCallback
from torch import nn

from elmo_plugin.modules import BiLM

WITHOUT_HOOKS: list[type[nn.Module]] = [BiLM]
"""Classes whose modules, with all in them, are left without hooks."""

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


ConfidenceChecksCallback.on_start = _check_unless_recovered  # type: ignore[method-assign]
NormalizationBiasVerification.register_hooks = _register_hooks  # type: ignore[method-assign]
