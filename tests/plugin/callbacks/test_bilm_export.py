"""These tests run the callback `bilm_export` in AllenNLP's trainer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.models import Model

from elmo_plugin.checks import InputError
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.plugin.callbacks.bilm_export import BiLMExportCallback
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from tests.plugin.models.test_training import config


def train(folder: Path, **model: Any) -> Any:
    params = config(folder.parent / "cache").as_dict()
    params["model"].update(model)
    params["trainer"].update(num_epochs=1, callbacks=[{"type": "bilm_export", "softmax": True}])
    return train_model(Params(params), str(folder))


def test_the_best_weights_are_exported(tmp_path):
    """The exported weights are those of the model that the run returns, which are the best. The
    number of states that the warm state averages has no place in the files."""
    model = train(tmp_path / "run")
    bilm, softmax, *_ = find_bilm(tmp_path / "run" / "bilm-tf", with_softmax=True)
    for name, tensor in model.softmax.state_dict().items():
        assert torch.equal(softmax.state_dict()[name], tensor), name
    for name, tensor in model.bilm.state_dict().items():
        if name != "warm_state.count":
            assert torch.equal(bilm.state_dict()[name], tensor), name


def test_a_warning_before_training_where_allennlp_will_not_read_it(tmp_path, caplog):
    """A model without residuals gives a warning that names them. A model that AllenNLP reads gives
    none, and another model than a biLM an error."""

    class Trainer:
        """The attribute of a trainer that the callback reads."""

        def __init__(self, **lstm: Any) -> None:
            params = config(tmp_path / "cache").as_dict()["model"]
            params["lstm"] |= lstm
            params["n_negative_samples"] = None
            words = BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", "a"])
            self.model = Model.from_params(Params(params), vocab=words)

    callback: Any = BiLMExportCallback(str(tmp_path))
    callback.on_start(Trainer())
    assert "bilm_export" not in caplog.text
    callback.on_start(Trainer(use_skip_connections=False))
    assert "does not: it needs lstm.use_skip_connections" in caplog.text
    tagger: Any = SimpleNamespace(model=torch.nn.Linear(1, 1))
    with pytest.raises(InputError, match='expected a model of type "bilm", found Linear'):
        callback.on_start(tagger)
