"""
ELMo in plain PyTorch. `elmo_plugin.plugin` contains everything that is registered with AllenNLP.
AllenNLP imports this package if a plugins file names it, which registers the plugin. In your own
program, use `import elmo_plugin.plugin`.
"""

import sys

from elmo_plugin.adapters.allennlp_09 import ElmoEmbedder
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.version import VERSION as __version__

__all__ = ["Elmo", "ElmoEmbedder", "LanguageModel", "__version__"]

if "allennlp" in sys.modules:
    import elmo_plugin.plugin  # noqa: F401
