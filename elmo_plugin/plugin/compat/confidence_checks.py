"""
AllenNLP's trainer sets hooks on every module of a model until the second batch, to find biases
before normalization layers. In a recovered run the hooks stay, and remember every call of every
module. Importing this module sets none in a recovered run. It exempts biLMs, which have no
normalization and whose caches hooks disable, and the LSTMs of the encoder `lstm`, which is computed
in another way with hooks. The encoder itself keeps its hook.
"""

from typing import Any

from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import ConfidenceChecksCallback

from elmo_plugin.modules import BiLM
from elmo_plugin.plugin.compat.lstm_encoder import PaddedLstmSeq2SeqEncoder

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
    bilms = [module for module in self.model.modules() if isinstance(module, BiLM)]
    left_out = {part for bilm in bilms for part in bilm.modules()}
    encoders = (m for m in self.model.modules() if isinstance(m, PaddedLstmSeq2SeqEncoder))
    left_out |= {encoder._module for encoder in encoders}
    self._hook_handles = [
        module.register_forward_hook(self._create_hook(name))
        for name, module in self.model.named_modules()
        if module not in left_out
    ]


ConfidenceChecksCallback.on_start = _check_unless_recovered  # type: ignore[method-assign]
NormalizationBiasVerification.register_hooks = _register_hooks  # type: ignore[method-assign]
