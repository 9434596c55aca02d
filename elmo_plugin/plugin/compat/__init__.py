"""
Patches for AllenNLP 2.10.1 and allennlp-models 2.10.1, their last releases, on current versions of
PyTorch, NLTK and spaCy. Importing a module applies its patch. Patches are independent: when one is
no longer needed, remove its file, its line here and its test.
"""

# First, because the others import AllenNLP and allennlp-models, which print warnings at import.
from elmo_plugin.plugin.compat import import_warnings  # isort: split

from elmo_plugin.plugin.compat import (
    confidence_checks,
    initializers,
    nltk_downloads,
    ptb_folder,
    reduce_on_plateau,
    resumed_epochs,
    spacy_models,
    sparse_gradients,
    trainer_keys,
)
