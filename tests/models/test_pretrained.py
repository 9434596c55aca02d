"""Fine-tuning starts from another model's weights, and its archive needs that model no more."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model

from elmo_plugin.commands.bilm_export import export
from elmo_plugin.data.vocabulary import BilmVocabulary
from elmo_plugin.models.archive import load_language_model
from elmo_plugin.models.bilm import BilmLanguageModel
from tests.conftest import BLOCKS, WORDS
from tests.models.test_training import TEXT, config

NEW_WORDS = ["<S>", "</S>", "<UNK>", "stick", "new", "the"]


def tuned(vocabulary: list[str], **extra: Any) -> BilmLanguageModel:
    params = {**BLOCKS, "type": "bilm", "n_negative_samples": 3, **extra}
    return Model.from_params(Params(params), vocab=BilmVocabulary.from_words(vocabulary))


def check_carried_over(source: BilmLanguageModel, model: BilmLanguageModel) -> None:
    """Every weight of the biLM, and the softmax of the words that both know; not of "new"."""
    for name, tensor in source.bilm.state_dict().items():
        assert torch.equal(tensor, model.bilm.state_dict()[name]), name
    for k, word in enumerate(NEW_WORDS):
        if word != "new":
            assert torch.equal(model.softmax.weight[k], source.softmax.weight[WORDS.index(word)])
    fresh = tuned(NEW_WORDS).softmax.weight[NEW_WORDS.index("new")]
    row = model.softmax.weight[NEW_WORDS.index("new")]
    assert not any(torch.equal(row, old) for old in source.softmax.weight)
    assert row.shape == fresh.shape


def test_from_an_archive(bilm_archive):
    """Expected values: the archive's own."""
    model = tuned(NEW_WORDS, pretrained_file=bilm_archive)
    check_carried_over(load_language_model(bilm_archive), model)


def test_from_bilm_tfs_files(bilm_archive, tmp_path):
    """Expected values: those of the archive that the files were exported from."""
    source = load_language_model(bilm_archive)
    export(source, tmp_path, with_softmax=True)
    weights, vocabulary = (str(tmp_path / f) for f in ("weights.hdf5", "vocabulary.txt"))
    both = {"pretrained_file": weights, "pretrained_vocabulary_file": vocabulary}
    check_carried_over(source, tuned(NEW_WORDS, **both))
    alone = tuned(NEW_WORDS, pretrained_file=weights)
    for name, tensor in source.bilm.state_dict().items():
        if name != "warm_state.count":
            assert torch.equal(tensor, alone.bilm.state_dict()[name]), name


def test_other_sizes_are_refused(bilm_archive):
    """The message names the archive."""
    other = {**BLOCKS, "lstm": {**BLOCKS["lstm"], "dim": 30}}
    with pytest.raises(ConfigurationError, match=r"model\.tar\.gz: lstm\.dim: .* 30, found 24"):
        tuned(NEW_WORDS, **other, pretrained_file=bilm_archive)


def test_a_vocabulary_without_a_softmax_is_refused(bilm_archive, tmp_path):
    """The message names the file and the missing array."""
    export(load_language_model(bilm_archive), tmp_path, with_softmax=False)
    weights, vocabulary = (str(tmp_path / f) for f in ("weights.hdf5", "vocabulary.txt"))
    with pytest.raises(ConfigurationError, match=r"weights\.hdf5: softmax/W: expected"):
        tuned(NEW_WORDS, pretrained_file=weights, pretrained_vocabulary_file=vocabulary)


def test_the_archive_stands_alone(bilm_archive, tmp_path):
    """Trained on, then loaded where the model that it started from is gone."""
    start = tmp_path / "start.tar.gz"
    shutil.copy(bilm_archive, start)
    params = config(tmp_path / "cache").as_dict()
    params["model"].update(BLOCKS, pretrained_file=str(start))
    params["trainer"].update(num_epochs=1, callbacks=[])
    model = train_model(Params(params), str(tmp_path / "run"))
    start.unlink()
    loaded = load_language_model(tmp_path / "run" / "model.tar.gz")
    assert model is not None
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name


def test_the_config_is_read(monkeypatch):
    """By construction: what the environment names is where it starts and what it reads."""
    for name, value in {"ARCHIVE": "a.tar.gz", "TEXT": str(TEXT), "DEV": "dev.txt"}.items():
        monkeypatch.setenv(f"BILM_{name}", value)
    path = Path(__file__).parents[2] / "training_configs" / "bilm_finetune.jsonnet"
    found = Params.from_file(str(path)).as_dict()
    assert found["model"]["pretrained_file"] == "a.tar.gz"
    assert found["vocabulary"]["corpus"] == found["train_data_path"] == str(TEXT)


def test_an_adaptive_softmax_starts_anew(bilm_archive):
    """Expected: the biLM's weights, and nothing of a softmax of another kind."""
    adaptive = {"n_negative_samples": None, "adaptive_cutoffs": [3]}
    model = tuned(NEW_WORDS, pretrained_file=bilm_archive, **adaptive)
    for name, tensor in load_language_model(bilm_archive).bilm.state_dict().items():
        assert torch.equal(tensor, model.bilm.state_dict()[name]), name
