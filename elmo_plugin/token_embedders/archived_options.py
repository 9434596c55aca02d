"""
What makes a task model's archive complete: the biLM's sizes travel in its vocabulary, which
AllenNLP saves right after the model was built and gives back when it is loaded; the weights travel
in the model's own weights, once.

A model that is being loaded gets its weights a moment later. One that is being trained does not, so
its files must be there. The two are told apart by what stands in the folder that AllenNLP names:
an archive, like a run that is recovered, has weights in it, and a run that begins has none. And
whatever happens, a biLM that was never filled refuses to read (see `Elmo.empty`).

The entries are words of a namespace of their own. A vocabulary that is used again for another run
can only be added to, so each entry has a number, and the newest of a source is the one that counts.
"""

import json
import logging
import os
from typing import Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm_tf.options_file import options_from_dict
from elmo_plugin.checks import shown
from elmo_plugin.files.torch_file import DamagedFileError, check_torch_file
from elmo_plugin.options import BiLMOptions

logger = logging.getLogger(__name__)

NAMESPACE = "elmo_options"
ARCHIVED = "weights.th"
TRAINED = "best.th"
"""The names of the weights in an archive, and in the folder of a training run."""


def remember(vocab: Optional[Vocabulary], source: str, options: BiLMOptions) -> None:
    """Writes the options of the biLM that the config calls `source` into the vocabulary."""
    if vocab is None or _all(vocab).get(source) == options:
        return
    number = len(vocab.get_token_to_index_vocabulary(NAMESPACE))
    entry = {"source": source, "options": options.to_dict(), "number": number}
    vocab.add_token_to_namespace(json.dumps(entry), NAMESPACE)


def recall(vocab: Optional[Vocabulary], source: str) -> Optional[BiLMOptions]:
    """
    The options that were remembered for `source`, if any. A model that was given another source
    when it was loaded, for example since the file has moved, gets those of the only biLM that it
    was saved with.
    """
    remembered = {} if vocab is None else _all(vocab)
    if source not in remembered and len(remembered) == 1:
        (archived,) = remembered
        logger.warning(
            "%s: the model was saved with another biLM, that of %s, which is used: its weights "
            "are in the archive",
            source,
            archived,
        )
        source = archived
    return remembered.get(source)


def _all(vocab: Vocabulary) -> dict[str, BiLMOptions]:
    """The newest options of each source."""
    remembered = {}
    for entry in vocab.get_token_to_index_vocabulary(NAMESPACE):  # in the order of their indices
        if not entry.startswith("{"):
            continue  # the padding and the unknown token
        try:
            found = json.loads(entry)
            source, options = found["source"], found["options"]
            remembered[source] = options_from_dict(options, source="the archive's vocabulary")
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f'vocabulary, namespace "{NAMESPACE}": expected an entry of the token embedder '
                f'"elmo", found {shown(entry)} ({error})'
            ) from error
    return remembered


def is_loading(serialization_dir: Optional[str]) -> bool:
    """
    Whether AllenNLP builds this model out of a folder with its weights.

    # Raises

    `DamagedFileError`
        If these weights are damaged: AllenNLP, which loads them next, does not notice.
    """
    if is_archive(serialization_dir):
        check_torch_file(os.path.join(str(serialization_dir), ARCHIVED))
        return True
    if not _holds(serialization_dir, TRAINED):
        return False
    try:
        check_torch_file(os.path.join(str(serialization_dir), TRAINED))
    except DamagedFileError as error:
        raise DamagedFileError(f"{error}. To resume training, remove it") from error
    return True


def is_archive(serialization_dir: Optional[str]) -> bool:
    """Whether that folder is an archive's: the model is here to be used, wherever it is now."""
    return _holds(serialization_dir, ARCHIVED)


def _holds(folder: Optional[str], name: str) -> bool:
    return folder is not None and os.path.isfile(os.path.join(folder, name))
