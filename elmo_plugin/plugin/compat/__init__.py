"""
Patches for AllenNLP 2.10.1 and allennlp-models 2.10.1, their last releases, on current versions of
PyTorch, NLTK and spaCy. Importing a module applies its patch. When one is no longer needed, remove
its file and its test. Patches are independent of one another. Some serve elsewhere too:
`confidence_checks` in `faster/lstm_encoder.py`, `spacy_models` in `data/installed_docs.py`, and
`sparse_gradients` in `training/`.
"""

import importlib
import pkgutil

# First, because the others import AllenNLP and allennlp-models, which print warnings at import.
from elmo_plugin.plugin.compat import import_warnings  # isort: split

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
