"""
AllenNLP 1.0 removed the module `allennlp.commands.elmo`, from which programs written for 0.9 import
`ElmoEmbedder`. Importing this module adds it again. Its subcommand is registered elsewhere, by the
name `elmo`.
"""

import sys

from allennlp import commands

from elmo_plugin.adapters import allennlp_09

sys.modules["allennlp.commands.elmo"] = allennlp_09
commands.elmo = allennlp_09  # type: ignore[attr-defined]
