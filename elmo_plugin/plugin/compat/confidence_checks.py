"""
AllenNLP's trainer sets hooks on every module of a model until the second batch, to find biases
before normalization layers. In a recovered run the hooks stay. Importing this module exempts biLMs,
which have no normalization and whose caches hooks disable, and the LSTMs of the encoder `lstm`: it
is computed in another way with hooks, so that a recovered run would round differently. The encoder
itself keeps its hook.
"""

from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification

from elmo_plugin.modules import BiLM
from elmo_plugin.plugin.compat.lstm_encoder import PaddedLstmSeq2SeqEncoder


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


NormalizationBiasVerification.register_hooks = _register_hooks  # type: ignore[method-assign]
