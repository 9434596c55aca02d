"""The smallest task model with token embedders, its training run and its archive."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model
from allennlp.modules import TextFieldEmbedder
from torch import nn


@Model.register("elmo_test_task", exist_ok=True)
class Task(Model):
    """It has a second name for its embedders."""

    def __init__(
        self, vocab: Vocabulary, text_field_embedder: TextFieldEmbedder, **kwargs: Any
    ) -> None:
        super().__init__(vocab, **kwargs)
        self._text_field_embedder = text_field_embedder
        self.encoder = nn.ModuleDict({"reads": text_field_embedder})

    def embedder(self, *inputs: Any, name: str = "elmo") -> Any:
        return getattr(self._text_field_embedder, f"token_embedder_{name}")(*inputs)


def model_of(**embedders: Any) -> dict[str, Any]:
    """The block `model` of a config."""
    blocks = {name: {"type": "elmo", "dropout": 0.0, **x} for name, x in embedders.items()}
    return {"type": "elmo_test_task", "text_field_embedder": {"token_embedders": blocks}}


def params(model: dict[str, Any]) -> Params:
    """Return a copy, because AllenNLP removes the keys that it reads."""
    return Params(deepcopy(model))


def train(model: dict[str, Any], folder: Path, vocabulary: Vocabulary | None = None) -> Task:
    """Do the steps of `allennlp train` around a model, in its order."""
    folder.mkdir()
    vocabulary = vocabulary or Vocabulary()
    task = Model.from_params(params(model), vocab=vocabulary, serialization_dir=str(folder))
    vocabulary.save_to_files(str(folder / "vocabulary"))
    torch.save(task.state_dict(), folder / "best.th")
    return task.eval()


def load(model: dict[str, Any], folder: Path) -> Task:
    return Model.load(Params({"model": params(model)}), serialization_dir=str(folder)).eval()


def write_task(folder: Path, vocabulary: Vocabulary | None = None, **embedders: Any) -> Task:
    """The run and the archive of a model with other mixes, as AllenNLP writes them."""
    model = model_of(**embedders)
    task = train(model, folder, vocabulary)
    for parameter in task.parameters():
        if parameter.numel() == 1:  # those of the mixes
            nn.init.normal_(parameter)
    torch.save(task.state_dict(), folder / "best.th")
    (folder / "config.json").write_text(json.dumps({"model": model}))
    archive_model(folder, archive_path=folder.with_suffix(".tar.gz"))
    return task
