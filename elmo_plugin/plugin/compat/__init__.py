"""
Changes of AllenNLP 2.10.1 that ELMo needs, or that report what a config of ELMo gets wrong.
Importing a module applies its patch. When one is no longer needed, remove its file and its test.
Patches are independent of one another. What AllenNLP itself needs is in `allennlp_today`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
