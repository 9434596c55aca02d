"""
ELMo, which is plain PyTorch, and in `elmo_plugin.plugin` all that it adds to AllenNLP. AllenNLP
imports this package by the name that a plugins file has, and that registers the plugin. In a
program of your own, `import elmo_plugin.plugin` does.
"""

import sys

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.version import VERSION as __version__

__all__ = ["Elmo", "__version__"]

if "allennlp" in sys.modules:
    import elmo_plugin.plugin  # noqa: F401
