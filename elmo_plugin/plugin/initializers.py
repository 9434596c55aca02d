"""
After a model is built, a config's `initializer` sets the parameters whose names match its patterns.
A pattern such as `.*weight.*` also matches those of a biLM, and would overwrite its loaded weights.
Importing this module makes AllenNLP's initializers skip them. An initializer of type `pretrained`
for them raises an error: it would load the parameters, but not the biLM's other state.
"""

import logging
import re
from types import SimpleNamespace

from allennlp.nn.initializers import InitializerApplicator, PretrainedModelInitializer
from torch import nn

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo

logger = logging.getLogger(__name__)


_initialize = InitializerApplicator.__call__


def _initialize_others(self: InitializerApplicator, module: nn.Module) -> None:
    elmos = [part for part in module.modules() if isinstance(part, Elmo)]
    loaded = {id(parameter) for elmo in elmos for parameter in elmo.bilm.parameters()}
    named = list(module.named_parameters())
    others = [(name, parameter) for name, parameter in named if id(parameter) not in loaded]
    left = [name for name, parameter in named if id(parameter) in loaded]
    if self._prevent_regex:
        left = [name for name in left if not re.search(self._prevent_regex, name)]
    for pattern, initializer in self._initializers:
        if name := next((name for name in left if re.search(pattern, name)), None):
            if isinstance(initializer, PretrainedModelInitializer):
                raise InputError(
                    f"initializer: {pattern!r}: expected no parameters of a biLM for the type "
                    f"pretrained, found {name}; add prevent_regexes: ['elmo.bilm']"
                )
            logger.warning(
                f"initializer: {pattern!r} matches loaded parameters of a biLM, such as {name}, "
                "and leaves them as they are"
            )
    _initialize(self, SimpleNamespace(named_parameters=lambda: others))  # type: ignore[arg-type]


InitializerApplicator.__call__ = _initialize_others  # type: ignore[method-assign]
