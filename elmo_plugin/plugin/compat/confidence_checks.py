"""
AllenNLP's trainer sets hooks on every module of a model, to find layers with a bias in front of a
normalization, until the second batch of a run; in a run that is recovered they stay. A biLM has no
normalization, and with hooks it computes without caches. Importing this leaves biLMs out.
"""

from allennlp.confidence_checks.normalization_bias_verification import (
    NormalizationBiasVerification,
)

from elmo_plugin.modules import BiLM


def _register_hooks(self: NormalizationBiasVerification) -> None:
    bilms = [module for module in self.model.modules() if isinstance(module, BiLM)]
    left_out = {part for bilm in bilms for part in bilm.modules()}
    self._hook_handles = [
        module.register_forward_hook(self._create_hook(name))
        for name, module in self.model.named_modules()
        if module not in left_out
    ]


NormalizationBiasVerification.register_hooks = _register_hooks  # type: ignore[method-assign]
