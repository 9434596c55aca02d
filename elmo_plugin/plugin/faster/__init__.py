"""
Lets the threads of AllenNLP's commands sleep on a busy machine, unless the environment variable
ALLENNLP_TODAY_FASTER is 0. Importing a module changes nothing; its function `apply` does.
"""

import importlib
import os
import pkgutil

from allennlp_today import SWITCHES

if "0" not in map(os.environ.get, SWITCHES):
    for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(_module.name).apply()
