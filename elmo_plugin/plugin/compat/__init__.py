"""
Repairs of what AllenNLP 2.10.1 and allennlp-models 2.10.1, their last releases, do wrong on current
versions of PyTorch, NLTK and spaCy. Importing a module applies its repair. Each module
is complete in itself: remove the file, its line here and its test when its reason is gone.
"""

# Before the others, because these import AllenNLP and allennlp-models, which warn as they load.
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
)
