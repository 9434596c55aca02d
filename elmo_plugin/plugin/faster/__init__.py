"""
Patches that make AllenNLP faster and are not needed to run it, and have nothing to do with ELMo.
Results are AllenNLP's except for rounding, and for the draws of dropout between the layers of
`lstm`. Importing a module changes nothing; its function `apply` does, which this package calls when
it is imported, unless the environment variable ELMO_PLUGIN_FASTER is 0. When a patch is no longer
faster, remove its file and its test.
"""

import importlib
import os
import pkgutil

if os.environ.get("ELMO_PLUGIN_FASTER") != "0":
    for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(_module.name).apply()
