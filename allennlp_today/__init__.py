"""
Patches for AllenNLP 2.10.1 and allennlp-models 2.10.1, their last releases: what they need on
Python 3.11 to 3.14 and current versions of PyTorch, NLTK and spaCy, and faster encoders. Importing
this package applies them all. It has nothing to do with ELMo and never imports `elmo_plugin`. When
a patch is no longer needed, remove it and its test.

The environment variable ALLENNLP_TODAY_FASTER=0 turns off the patches that only make AllenNLP
faster. Their results are AllenNLP's except for rounding, and for the draws of dropout between the
layers of `lstm`.
"""

import os

import elmo_plugin_imports
from allennlp_today.environment import check_environment

check_environment()
# PyTorch has already called this, unless its autoload is off or the package is not installed.
elmo_plugin_imports.install()

# First, because the others import AllenNLP and allennlp-models, which print warnings at import.
from allennlp_today import quiet_imports  # isort: split

from allennlp_today import (
    archive_compression,
    augmented_lstm,
    callbacks,
    character_cnn,
    data,
    distributed,
    include_package,
    lstm_encoder,
    models,
    old_configs,
    spacy_models,
    training,
)

if os.environ.get("ALLENNLP_TODAY_FASTER") != "0":
    for _patch in (archive_compression, augmented_lstm, character_cnn, lstm_encoder):
        _patch.apply()
