"""
Stores the options of an embedder's biLM in the vocabulary, so that the archive of a task model is
complete. AllenNLP saves the vocabulary after the model is built, and passes it to the model at
loading. The weights of the biLM are among those of the task model.

For an archive or the folder of a run, AllenNLP loads the weights after it has built the model, so
the files of the biLM are not needed, and `Elmo.from_options` returns a biLM that cannot be used
before its weights are loaded. A model that is trained needs them, also in a run that is recovered,
which may have no checkpoint. Importing this module makes `Model.load` say that it loads.

Each entry is a word in a separate namespace. A vocabulary that is used for several runs can only
grow, so entries are numbered, and the last entry of a source is valid. `formats/archive.py`
reads them too.
"""

import json
import logging
import os
from contextvars import ContextVar
from functools import wraps

from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.files.torch_file import check_torch_file
from elmo_plugin.formats.archive import NAMESPACE, stored_options
from elmo_plugin.options import BiLMOptions

logger = logging.getLogger(__name__)

LOADED: ContextVar[str | os.PathLike | None] = ContextVar("loaded", default=None)
"""The weights that AllenNLP loads into the model that it builds; `None` if it is trained."""

_load = Model.load.__func__  # type: ignore[attr-defined]


def put_options_in_vocabulary(vocab: Vocabulary | None, source: str, options: BiLMOptions) -> None:
    """Store the options of the biLM that the config names `source`."""
    if vocab is None:
        return
    entries = vocab.get_token_to_index_vocabulary(NAMESPACE)
    if stored_options(entries).get(source) == options:
        return
    entry = {"source": source, "options": options.to_dict(), "number": len(entries)}
    vocab.add_token_to_namespace(json.dumps(entry), NAMESPACE)


def options_in_vocabulary(vocab: Vocabulary | None, source: str) -> BiLMOptions | None:
    """
    The options of the biLM whose weights AllenNLP will load; `None` if the files of the biLM are
    needed. If no biLM of this `source` is stored, for example because a file was moved since, they
    are those of the only one.

    Raises a `DamagedFileError` if the weights are damaged, which AllenNLP does not detect at
    loading, and an `InputError` if an entry is.
    """
    weights = LOADED.get()
    if vocab is None or weights is None:
        return None
    check_torch_file(weights)
    stored = stored_options(vocab.get_token_to_index_vocabulary(NAMESPACE))
    if source not in stored and len(stored) == 1:
        (archived,) = stored
        logger.warning(
            f"{source}: the model was saved with another biLM, that of {archived}, which is used "
            "because its weights are in the archive"
        )
        source = archived
    return stored.get(source)


@wraps(_load)
def _load_and_say(
    cls: type[Model],
    config: Params,
    serialization_dir: str | os.PathLike,
    weights_file: str | os.PathLike | None = None,
    cuda_device: int = -1,
) -> Model:
    before = LOADED.set(weights_file or os.path.join(serialization_dir, "best.th"))
    try:
        return _load(cls, config, serialization_dir, weights_file, cuda_device)
    finally:
        LOADED.reset(before)


Model.load = classmethod(_load_and_say)  # type: ignore[assignment]
