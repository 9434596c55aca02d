"""
Loads archives of language models without executing code from them, and makes them from bilm-tf's
files.

`pretrained://small` is the archive of an installed model. It can be used wherever AllenNLP
expects a `model.tar.gz`:

    allennlp predict pretrained://small sentences.txt --include-package elmo_plugin
"""

import io
import json
import os
import shutil
import tempfile
from inspect import signature
from pathlib import Path
from typing import Any

from allennlp.common.meta import META_NAME, Meta
from allennlp.models.archival import archive_model
from cached_path import SchemeClient, add_scheme_client

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.atomic_write import name_full_disk
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.torch_file import save_torch_file
from elmo_plugin.formats.find import File, find_bilm
from elmo_plugin.formats.found import tie, without_memory
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.language_model import BiLMModel
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.version import VERSION

TRAINING_ONLY = {
    "type",
    "regularizer",
    "ddp_accelerator",
    "pretrained_file",
    "pretrained_vocabulary_file",
    "pretrained_softmax_file",
}
"""Keys of the block `model` that a trained model does not need. Their values are not read."""


def load_language_model(
    name: File,
    weight_file: File | None = None,
    vocabulary_file: File | None = None,
    softmax_file: File | None = None,
) -> BiLMModel:
    """
    Load a language model, which is named as in `find_bilm`, without executing code. Raises
    errors as `find_bilm`, and an `InputError` if there is no softmax, or if the model has no such
    parameter as one in the archive's config, or rejects its value.
    """
    found = find_bilm(
        name, weight_file, vocabulary_file, softmax_file=softmax_file, with_softmax=True
    )
    try:
        if found.softmax is None or found.words is None:
            raise InputError(
                "expected a softmax with its vocabulary, which a language model needs, found none"
            )
        parameters = found.parameters or {"n_negative_samples": None, **found.options.to_dict()}
        parameters = {k: v for k, v in parameters.items() if k not in TRAINING_ONLY}
        known = signature(BiLMModel).parameters.keys() - {"vocab", "serialization_dir"}
        if unknown := sorted(parameters.keys() - known):
            expected = ", ".join(sorted(known - TRAINING_ONLY))
            raise InputError(f"model: expected keys among {expected}, found {shown(unknown[0])}")
        with without_memory():
            model = BiLMModel(BiLMVocabulary.from_words(found.words), **parameters)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    # Its parameters are those of the modules that were found, because there may be gigabytes.
    model.bilm.load_state_dict(found.bilm.state_dict(), assign=True)
    model.softmax.load_state_dict(found.softmax.state_dict(), assign=True)
    tie(model.bilm, model.softmax)
    return model


def import_files(
    options: File,
    weights: File | None,
    vocabulary: File | None,
    archive: File,
    softmax: File | None = None,
) -> None:
    """
    Make the archive of a language model from bilm-tf's three files, with the softmax in the weight
    file or in a fourth file, or from one of its TensorFlow checkpoints, with a config that suffices
    for `evaluate` and `predict`. Raises an `InputError` if a file is damaged or missing, if there
    is no softmax, or if its size differs from the vocabulary's; and a `DiskFullError` if the disk
    is full.
    """
    model = load_language_model(options, weights, vocabulary, softmax)
    sizes = model.bilm.options
    n_characters = model.bilm.max_characters_per_token
    config = {
        "dataset_reader": {"type": "bilm", "max_characters_per_token": n_characters},
        "vocabulary": {"type": "bilm"},
        "model": {"type": "bilm", "n_negative_samples": None, **sizes.to_dict()},
        "data_loader": {"type": "bilm", "batch_size": 32, "shuffle": None},
    }
    with name_full_disk(archive):
        _write_archive(model, config, Path(archive))


def _write_archive(model: BiLMModel, config: dict[str, Any], archive: Path) -> None:
    archive = Path(os.path.realpath(archive))  # a link stays
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}.") as name:
        run = Path(name)
        model.vocab.save_to_files(str(run / "vocabulary"))
        save_torch_file(model.state_dict(), run / "best.th")
        (run / "config.json").write_text(json.dumps(config, indent=2))
        Meta.new().to_file(run / META_NAME)
        archive_model(run, archive_path=run / "model.tar.gz")
        (run / "model.tar.gz").replace(archive)


class PretrainedArchiveClient(SchemeClient):
    """
    Resolves `pretrained://NAME` for `cached_path`, which makes the archive once and caches it.
    """

    scheme = "pretrained"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        try:
            self.files = pretrained_files(resource.split("://", 1)[1])
        except ValueError as error:
            raise FileNotFoundError(f"{resource}: {error}") from None

    def get_etag(self) -> str:
        """A digest of the model's files; the cached archive is replaced when it changes."""
        return digest("".join([VERSION, *map(file_digest, self.files)]).encode())

    def get_size(self) -> int | None:
        return None

    def get_resource(self, temp_file: io.BufferedWriter) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "model.tar.gz"
            import_files(*self.files, str(archive))
            with open(archive, "rb") as file:
                shutil.copyfileobj(file, temp_file)


add_scheme_client(PretrainedArchiveClient)
