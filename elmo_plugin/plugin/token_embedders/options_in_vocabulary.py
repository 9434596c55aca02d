"""
Stores the options of an embedder's biLM in the vocabulary, so that the archive of a task model is
complete. AllenNLP saves the vocabulary after the model is built, and passes it to the model at
loading. The weights of the biLM are among those of the task model.

For an archive or the folder of a run, AllenNLP loads the weights after it has built the model, so
the files of the biLM are not needed. A model that is trained needs them. The two cases differ in
the folder that AllenNLP passes, which contains weights and the same options only in the first;
there, `Elmo.from_options` returns a biLM that cannot be used before its weights are loaded.

Each entry is a word in a separate namespace. A vocabulary that is used for several runs can only
grow, so entries are numbered, and the last entry of a source is valid. `formats/archive.py`
reads them too.
"""

import json
import logging
import os
from pathlib import Path

from allennlp.data import Vocabulary

from elmo_plugin.files.torch_file import DamagedFileError, check_torch_file
from elmo_plugin.formats.archive import FILE, NAMESPACE, WEIGHTS, stored_options
from elmo_plugin.options import BiLMOptions

logger = logging.getLogger(__name__)

ARCHIVED, TRAINED = WEIGHTS


def put_options_in_vocabulary(vocab: Vocabulary | None, source: str, options: BiLMOptions) -> None:
    """Store the options of the biLM that the config names `source`."""
    if vocab is None:
        return
    entries = vocab.get_token_to_index_vocabulary(NAMESPACE)
    if stored_options(entries).get(source) == options:
        return
    entry = {"source": source, "options": options.to_dict(), "number": len(entries)}
    vocab.add_token_to_namespace(json.dumps(entry), NAMESPACE)


def options_in_vocabulary(
    vocab: Vocabulary | None, source: str, serialization_dir: str | None
) -> BiLMOptions | None:
    """
    The options of the biLM whose weights AllenNLP will load from this folder; `None` if the files
    of the biLM are needed. If no biLM of this `source` is stored, for example because a file was
    moved since, they are those of the only one.

    Raises a `DamagedFileError` if the weights are damaged, which AllenNLP does not detect at
    loading, and an `InputError` if an entry is.
    """
    if vocab is None or serialization_dir is None or not _is_loading(serialization_dir):
        return None
    stored = stored_options(vocab.get_token_to_index_vocabulary(NAMESPACE))
    file = Path(serialization_dir, FILE)
    if stored != stored_options(file.read_text("utf-8").split("\n") if file.exists() else []):
        return None  # A recovered run has the vocabulary of its config, which may be another run's.
    if source not in stored and len(stored) == 1:
        (archived,) = stored
        logger.warning(
            f"{source}: the model was saved with another biLM, that of {archived}, which is used "
            "because its weights are in the archive"
        )
        source = archived
    return stored.get(source)


def _is_loading(folder: str) -> bool:
    if is_archive(folder):
        check_torch_file(os.path.join(folder, ARCHIVED))
        return True
    if not _holds(folder, TRAINED):
        return False
    try:
        check_torch_file(os.path.join(folder, TRAINED))
    except DamagedFileError as error:
        raise DamagedFileError(f"{error}. To resume training, remove it") from error
    return True


def is_archive(serialization_dir: str | None) -> bool:
    """Whether the folder is that of an archive, possibly on another machine than in training."""
    return _holds(serialization_dir, ARCHIVED)


def _holds(folder: str | None, name: str) -> bool:
    return folder is not None and os.path.isfile(os.path.join(folder, name))
