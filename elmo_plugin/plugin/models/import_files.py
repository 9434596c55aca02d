"""Makes the archive of a language model from bilm-tf's files."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.meta import META_NAME, Meta
from allennlp.models import Model
from allennlp.models.archival import archive_model

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import name_full_disk
from elmo_plugin.formats.archive import PARAMETERS
from elmo_plugin.formats.bilm_tf.options_file import read_options
from elmo_plugin.formats.bilm_tf.weight_file import check_weights, n_softmax_words, read_weights
from elmo_plugin.modules import SampledSoftmax
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import BilmVocabulary, vocabulary_words
from elmo_plugin.plugin.models.bilm import BilmLanguageModel


def import_files(options: str, weights: str, vocabulary: str, archive: str) -> None:
    """
    Makes the archive of a language model from bilm-tf's three files.

    # Raises

    `InputError`
        If a file is damaged or missing, if there is no softmax, or if it and the vocabulary have
        different numbers of words.
    `DiskFullError`
        If there is no space for the archive.
    """
    n_words = n_softmax_words(weights)
    if n_words is None:
        raise InputError(
            f"{weights}: expected a softmax, which a language model needs, found none; for vectors "
            "alone, name the files in the embedder"
        )
    vocab = BilmVocabulary.from_corpus(file=vocabulary)
    n_listed = len(vocabulary_words(vocab))
    if n_words != n_listed:
        raise InputError(
            f"{vocabulary}: expected {n_words} words, as the softmax in {weights} has, found "
            f"{n_listed}"
        )
    sizes = read_options(options)
    check_weights(sizes, weights, n_words)
    config = _config(sizes)
    model = Model.from_params(Params(json.loads(json.dumps(config["model"]))), vocab=vocab)
    assert isinstance(model, BilmLanguageModel) and isinstance(model.softmax, SampledSoftmax)
    read_weights(model.bilm, weights, model.softmax)
    with name_full_disk(archive):
        _write_archive(model, config, Path(archive))


def _write_archive(model: BilmLanguageModel, config: dict[str, Any], archive: Path) -> None:
    archive = Path(os.path.realpath(archive))  # a link stays
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}.") as name:
        run = Path(name)
        model.vocab.save_to_files(str(run / "vocabulary"))
        with open(run / "best.th", "wb") as file:  # unlike torch.save's, its errors say why
            torch.save(model.state_dict(), file)
        (run / "config.json").write_text(json.dumps(config, indent=2))
        Meta.new().to_file(run / META_NAME)
        archive_model(run, archive_path=run / "model.tar.gz")
        (run / "model.tar.gz").replace(archive)


def _config(options: BiLMOptions) -> dict[str, Any]:
    """The config of the archive, with all that `evaluate` and `predict` need."""
    model: dict[str, Any] = {"type": "bilm", "n_negative_samples": None}
    model |= {k: v for k, v in options.to_dict().items() if k in PARAMETERS}
    n_characters = options.char_cnn.max_characters_per_token
    return {
        "dataset_reader": {"type": "bilm", "max_characters_per_token": n_characters},
        "vocabulary": {"type": "bilm"},
        "model": model,
        "data_loader": {"type": "bilm", "batch_size": 32, "shuffle": None},
    }
