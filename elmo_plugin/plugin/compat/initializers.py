"""
A config's `initializer` sets the parameters of a model whose names match its patterns, once the
model is built. A pattern such as `.*weight.*` also matches those of a biLM, and would replace its
loaded weights by random ones. Importing this makes AllenNLP's initializers leave them out.
"""

import logging
import re

from allennlp.nn.initializers import InitializerApplicator
from torch import nn

from elmo_plugin.elmo import Elmo

logger = logging.getLogger(__name__)


class _Parameters:
    """A module's parameters for `InitializerApplicator`, without those of biLMs in use."""

    def __init__(self, module: nn.Module) -> None:
        elmos = [part for part in module.modules() if isinstance(part, Elmo)]
        loaded = {id(parameter) for elmo in elmos for parameter in elmo.bilm.parameters()}
        self._others: list[tuple[str, nn.Parameter]] = []
        self.loaded: list[str] = []
        for name, parameter in module.named_parameters():
            if id(parameter) in loaded:
                self.loaded.append(name)
            else:
                self._others.append((name, parameter))

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return self._others


_initialize = InitializerApplicator.__call__


def _initialize_others(self: InitializerApplicator, module: nn.Module) -> None:
    parameters = _Parameters(module)
    prevented = self._prevent_regex
    names = [name for name in parameters.loaded if not (prevented and re.search(prevented, name))]
    for pattern, _ in self._initializers:
        if matched := [name for name in names if re.search(pattern, name)]:
            logger.warning(
                "initializer: %r matches %d loaded parameters of a biLM, such as %s, and leaves "
                "them as they are",
                pattern,
                len(matched),
                matched[0],
            )
    _initialize(self, parameters)  # type: ignore[arg-type]


InitializerApplicator.__call__ = _initialize_others  # type: ignore[method-assign]
