"""
Stores the options of an embedder's biLM in the vocabulary, so that the archive of a task model is
complete. AllenNLP saves the vocabulary after the model is built, and passes it to the model at
loading. The weights of the biLM are among those of the task model.

For an archive or a recovered run, AllenNLP loads the weights after it has built the model, so the
files of the biLM are not needed. A model that is trained from scratch needs them. The two cases
differ in the folder that AllenNLP passes, which contains weights only in the first. In both cases
`Elmo.from_options` returns a biLM that cannot be used before its weights are loaded.

Each entry is a word in a separate namespace. A vocabulary that is used for several runs can only
grow, so entries are numbered, and the last entry of a source is valid.
"""

import json
import logging
import os
from typing import Optional

from allennlp.data import Vocabulary

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.torch_file import DamagedFileError, check_torch_file
from elmo_plugin.formats.archive_files import WEIGHTS
from elmo_plugin.formats.bilm_tf.options_file import options_from_dict
from elmo_plugin.options import BiLMOptions

logger = logging.getLogger(__name__)

NAMESPACE = "elmo_options"
ARCHIVED, TRAINED = WEIGHTS


def put_options_in_vocabulary(
    vocab: Optional[Vocabulary], source: str, options: BiLMOptions
) -> None:
    """Store the options of the biLM that the config names `source`."""
    if vocab is None or _stored(vocab).get(source) == options:
        return
    number = len(vocab.get_token_to_index_vocabulary(NAMESPACE))
    entry = {"source": source, "options": options.to_dict(), "number": number}
    vocab.add_token_to_namespace(json.dumps(entry), NAMESPACE)


def options_in_vocabulary(vocab: Optional[Vocabulary], source: str) -> Optional[BiLMOptions]:
    """
    The options stored for `source`, if any. If the source has changed since the model was saved,
    for example because a file was moved, return the options of the only biLM in the vocabulary.
    """
    stored = {} if vocab is None else _stored(vocab)
    if source not in stored and len(stored) == 1:
        (archived,) = stored
        logger.warning(
            f"{source}: the model was saved with another biLM, that of {archived}, which is used "
            "because its weights are in the archive"
        )
        source = archived
    return stored.get(source)


def _stored(vocab: Vocabulary) -> dict[str, BiLMOptions]:
    """The last stored options of each source."""
    stored = {}
    for entry in vocab.get_token_to_index_vocabulary(NAMESPACE):  # in the order of their indices
        if not entry.startswith("{"):
            continue  # padding and the unknown token
        try:
            found = json.loads(entry)
            source, options = found["source"], found["options"]
            stored[source] = options_from_dict(options, source="the archive's vocabulary")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f'vocabulary, namespace "{NAMESPACE}": expected an entry of the token embedder '
                f'"elmo", found {shown(entry)} ({error})'
            ) from error
    return stored


def is_loading(serialization_dir: Optional[str]) -> bool:
    """
    Whether AllenNLP builds this model in order to load its weights from this folder. Raises a
    `DamagedFileError` if these weights are damaged, which AllenNLP does not detect at loading.
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
    """Whether the folder is that of an archive, possibly on another machine than in training."""
    return _holds(serialization_dir, ARCHIVED)


def _holds(folder: Optional[str], name: str) -> bool:
    return folder is not None and os.path.isfile(os.path.join(folder, name))
