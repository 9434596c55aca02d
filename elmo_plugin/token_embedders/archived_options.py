"""
What makes a task model's archive complete: the biLM's sizes travel in its vocabulary, which
AllenNLP saves right after the model was built and gives back when it is loaded; the weights travel
in the model's own weights, once.

A model that is being loaded gets its weights a moment later. One that is being trained does not, so
its files must be there. The two are told apart by what stands in the folder that AllenNLP names:
an archive, like a run that is recovered, has weights in it, and a run that begins has none. And
whatever happens, a biLM that was never filled refuses to read (see `Elmo.empty`).
"""

import json
import os
from typing import Optional

from allennlp.data import Vocabulary

from elmo_plugin.bilm_tf import options_from_dict, options_to_dict
from elmo_plugin.options import BiLMOptions

NAMESPACE = "elmo_options"
ARCHIVED = "weights.th"
TRAINED = "best.th"
"""The names of the weights in an archive, and in the folder of a training run."""


def remember(vocab: Optional[Vocabulary], source: str, options: BiLMOptions) -> None:
    """Writes the options of the biLM that the config calls `source` into the vocabulary."""
    if vocab is not None and recall(vocab, source) is None:
        entry = json.dumps({"source": source, "options": options_to_dict(options)})
        vocab.add_token_to_namespace(entry, NAMESPACE)


def recall(vocab: Optional[Vocabulary], source: str) -> Optional[BiLMOptions]:
    """The options that were remembered for `source`, if any."""
    entries = vocab.get_token_to_index_vocabulary(NAMESPACE) if vocab is not None else {}
    for entry in entries:
        if entry.startswith("{"):
            found = json.loads(entry)
            if found["source"] == source:
                return options_from_dict(found["options"], source="the archive's vocabulary")
    return None


def is_loading(serialization_dir: Optional[str]) -> bool:
    """Whether AllenNLP builds this model out of a folder with its weights."""
    return is_archive(serialization_dir) or _holds(serialization_dir, TRAINED)


def is_archive(serialization_dir: Optional[str]) -> bool:
    """Whether that folder is an archive's: the model is here to be used, wherever it is now."""
    return _holds(serialization_dir, ARCHIVED)


def _holds(folder: Optional[str], name: str) -> bool:
    return folder is not None and os.path.isfile(os.path.join(folder, name))
