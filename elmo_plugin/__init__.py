"""
ELMo in plain PyTorch. `elmo_plugin.plugin` contains everything that is registered with AllenNLP.
AllenNLP imports this package if a plugins file names it, which registers the plugin. In your own
program, use `import elmo_plugin.plugin`.
"""

import sys
from typing import TYPE_CHECKING, Any

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.version import VERSION as __version__

if TYPE_CHECKING:
    from elmo_plugin.adapters.allennlp_09 import ElmoEmbedder

__all__ = ["Elmo", "ElmoEmbedder", "LanguageModel", "__version__"]


def __getattr__(name: str) -> Any:
    """Import `ElmoEmbedder` when it is used, because it also needs what reads text."""
    if name == "ElmoEmbedder":
        from elmo_plugin.adapters.allennlp_09 import ElmoEmbedder

        return ElmoEmbedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "allennlp" in sys.modules:
    import elmo_plugin.plugin  # noqa: F401
