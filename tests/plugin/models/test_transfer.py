"""Fine-tuning starts from another model's weights. tests/training_configs/test_finetune.py shows
that its archive does not need that model any more."""

from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.models import Model

from elmo_plugin.checks import InputError
from elmo_plugin.formats import find
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models import transfer
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests.conftest import BLOCKS, WORDS, export_files

NEW_WORDS = ["<S>", "</S>", "<UNK>", "stick", "new", "the"]


def tuned(vocabulary: list[str], **extra: Any) -> BiLMModel:
    torch.manual_seed(1)  # a source of the same state would have the same initial rows
    params = {**BLOCKS, "type": "bilm", "n_negative_samples": 3, **extra}
    return Model.from_params(Params(params), vocab=BiLMVocabulary.from_words(vocabulary))


def check_carried_over(source: BiLMModel, model: BiLMModel) -> None:
    """Check every weight of the biLM, and the softmax of the words that both models know; "new" is
    none of them, and keeps its initial values."""
    for name, tensor in source.bilm.state_dict().items():
        assert torch.equal(tensor, model.bilm.state_dict()[name]), name
    fresh = tuned(NEW_WORDS)
    for k, word in enumerate(NEW_WORDS):
        other, row = (source, WORDS.index(word)) if word in WORDS else (fresh, k)
        for name, found in model.softmax.named_parameters():
            assert torch.equal(found[k], other.softmax.get_parameter(name)[row]), (name, word)


def test_from_an_archive(bilm_archive, monkeypatch):
    """The expected weights are those of the archive, also if few rows are copied at a time."""
    monkeypatch.setattr(transfer, "ROWS", 2)
    model = tuned(NEW_WORDS, pretrained_file=bilm_archive)
    check_carried_over(Model.from_archive(bilm_archive), model)


def test_from_bilm_tfs_files(bilm_archive, tmp_path, monkeypatch):
    """The expected weights are those of the archive that the files were exported from, to which
    the biases of the softmax are added here."""
    monkeypatch.setattr(transfer, "ROWS", 2)
    source = Model.from_archive(bilm_archive)
    source.softmax.bias.data = torch.linspace(1, 2, len(WORDS))
    export_files(source, tmp_path, with_softmax=True)
    weights, vocabulary = (str(tmp_path / f) for f in ("weights.hdf5", "vocabulary.txt"))
    both = {"pretrained_file": weights, "pretrained_vocabulary_file": vocabulary}
    check_carried_over(source, tuned(NEW_WORDS, **both))
    monkeypatch.setattr(find, "local_path", lambda *_: weights)  # downloads the second
    for file in (weights, "https://host/weights.hdf5?download=true"):
        alone = tuned(NEW_WORDS, pretrained_file=file)
        for name, tensor in source.bilm.state_dict().items():
            if name != "warm_state.count":
                assert torch.equal(tensor, alone.bilm.state_dict()[name]), name


OTHER = {"lstm": {**BLOCKS["lstm"], "dim": 30}}


@pytest.mark.parametrize(
    "file, words, extra, message",
    [
        ("ARCHIVE", "nowhere/vocab", {}, "nowhere/vocab: expected bilm-tf's vocabulary"),
        ("ARCHIVE", "ARCHIVE", {}, "pretrained_file: .* expected no vocabulary file with this"),
        (None, "ARCHIVE", {}, "pretrained_file: expected one with .* found null"),
        ("ARCHIVE", None, OTHER, r"^pretrained_file: .*\.tar\.gz: lstm\.dim: .* 30, found 24$"),
        ("pretrained://tiny", None, {}, r"^pretrained_file: pretrained://tiny: lstm\.dim"),
        ("pretrained://smal", None, {}, "^pretrained_file: pretrained: expected .* 'smal'"),
        ("FILES/weights.hdf5", "FILES/vocabulary.txt", {}, r"weights\.hdf5: expected a softmax"),
    ],
)
def test_what_is_refused(bilm_archive, tmp_path, file, words, extra, message):
    """The message names the file, and what is missing or too much. An archive contains its words,
    and without a file there are none to match."""
    export_files(Model.from_archive(bilm_archive), tmp_path, with_softmax=False)
    file, words = (
        x and x.replace("ARCHIVE", bilm_archive).replace("FILES", str(tmp_path))
        for x in (file, words)
    )
    with pytest.raises((InputError, FileNotFoundError), match=message):
        tuned(NEW_WORDS, **extra, pretrained_file=file, pretrained_vocabulary_file=words)
