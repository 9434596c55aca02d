"""
AllenNLP's trainer sets hooks on every module of a model until the second batch, to find biases
before normalization layers. In a recovered run the hooks stay. A biLM has no normalization, and
hooks disable its caches. Importing this module exempts biLMs.
"""

from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification

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
