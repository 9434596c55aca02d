"""
ELMo for AllenNLP. Importing this package registers the names in docs/reference.md: models, data
and training of language models, ELMo for tasks, commands, and the addresses `docs://train`,
`docs://heldout`, `task://CONFIG#KEY` and `pretrained://NAME`.
"""

import importlib
import pkgutil

from elmo_plugin.commands.streams import occupy_closed_streams

occupy_closed_streams()

# First, because it checks the installed packages, and patches AllenNLP for the imports below.
import allennlp_today  # isort: split

from elmo_plugin.modules import BiLM

# A biLM has no normalization, and hooks disable its caches.
allennlp_today.callbacks.WITHOUT_HOOKS.append(BiLM)
allennlp_today.data.IMPORTED_BY_WORKERS.append(__name__)

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
