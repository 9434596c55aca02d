"""
Loads archives of language models without executing code from them, and makes them from bilm-tf's
files.

`pretrained://small` is the archive of a model in the package. It can be used wherever AllenNLP
expects a `model.tar.gz`:

    allennlp predict pretrained://small sentences.txt
"""

import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from allennlp.common.meta import META_NAME, Meta
from allennlp.models.archival import archive_model
from cached_path import SchemeClient, add_scheme_client

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import name_full_disk
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.torch_file import save_torch_file
from elmo_plugin.formats.archive import read_archive
from elmo_plugin.formats.bilm_tf.options_file import read_options
from elmo_plugin.formats.bilm_tf.weight_file import check_weights, n_softmax_words, read_weights
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary, vocabulary_words
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.version import VERSION


def load_language_model(archive_file: str | os.PathLike) -> LanguageModel:
    """
    Load the language model from an archive or the folder of a training run, without executing code.
    Raises errors as `read_archive`, and an `InputError` if the model rejects a value of the config.
    """
    archive = read_archive(archive_file)
    try:
        model = LanguageModel(BiLMVocabulary.from_words(archive.words), **archive.parameters)
    except InputError as error:
        raise InputError(f"{archive_file}: {error}") from error
    model.load_state_dict(archive.state)
    return model


def import_files(options: str, weights: str, vocabulary: str, archive: str) -> None:
    """
    Make the archive of a language model from bilm-tf's three files, with a config that suffices for
    `evaluate` and `predict`. Raises an `InputError` if a file is damaged or missing, if there is no
    softmax, or if its size differs from the vocabulary's; and a `DiskFullError` if the disk is
    full.
    """
    n_words = n_softmax_words(weights)
    if n_words is None:
        raise InputError(
            f"{weights}: expected a softmax, which a language model needs, found none; for vectors "
            "only, name the files in the embedder"
        )
    vocab = BiLMVocabulary.from_corpus(file=vocabulary)
    n_listed = len(vocabulary_words(vocab))
    if n_words != n_listed:
        raise InputError(
            f"{vocabulary}: expected {n_words} words, as the softmax in {weights} has, found "
            f"{n_listed}"
        )
    sizes = read_options(options)
    check_weights(sizes, weights, n_words)
    blocks = sizes.to_dict()
    model = LanguageModel(vocab, n_negative_samples=None, **blocks)
    read_weights(model.bilm, weights, model.softmax)
    n_characters = sizes.char_cnn.max_characters_per_token
    config = {
        "dataset_reader": {"type": "bilm", "max_characters_per_token": n_characters},
        "vocabulary": {"type": "bilm"},
        "model": {"type": "bilm", "n_negative_samples": None, **blocks},
        "data_loader": {"type": "bilm", "batch_size": 32, "shuffle": None},
    }
    with name_full_disk(archive):
        _write_archive(model, config, Path(archive))


def _write_archive(model: LanguageModel, config: dict[str, Any], archive: Path) -> None:
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
