"""
ELMo for AllenNLP. Importing this package registers the names in docs/registered.md: models, data
and training of language models, ELMo for tasks, commands, and the addresses `docs://train`,
`docs://heldout`, `task://CONFIG#KEY` and `pretrained://NAME`.
"""

import importlib
import pkgutil

import elmo_plugin_torchvision
from elmo_plugin.files.standard_streams import occupy_closed_streams
from elmo_plugin.plugin.environment import check_environment

check_environment()
occupy_closed_streams()
# PyTorch has already called this, unless its autoload is off or the package is not installed.
elmo_plugin_torchvision.install()

# This patches AllenNLP for the imports below, which register everything.
from elmo_plugin.plugin import compat, faster  # isort: split

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
