"""The configs of `models.libsonnet`, and what is done with them."""

import json
import shutil
from pathlib import Path
from typing import Any

import _jsonnet
import pytest
from allennlp.common import Params
from allennlp.common.plugins import import_plugins
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model

from tests.conftest import ROOT, allennlp

import_plugins()  # allennlp-models is one of them

LIBRARY = f"(import '{ROOT}/training_configs/lib/elmo.libsonnet')"


def evaluated(snippet: str) -> Any:
    """What a jsonnet expression gives, in which `models` is `models.libsonnet`."""
    models = f"local models = import '{Path(__file__).parent}/models.libsonnet'; "
    external = {"FIXTURES": str(ROOT / "fixtures")}
    return json.loads(_jsonnet.evaluate_snippet("test", models + snippet, ext_vars=external))


def with_elmo(
    name: str, place: str, archive: str | None, arguments: str = "dim=16", **embedder: Any
) -> dict[str, Any]:
    """The config of a model after the library's line, with a biLM of 2P = 16."""
    if archive is not None:
        embedder["archive_file"] = archive
    return evaluated(f"{LIBRARY}.{place}(models.{name}, {json.dumps(embedder)}, {arguments})")


def build(config: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
    """A model, and its data in one batch."""
    config = json.loads(json.dumps(config))  # AllenNLP takes what it reads out of it
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    instances = list(reader.read(config["train_data_path"]))
    for instance in instances:
        reader.apply_token_indexers(instance)
    vocab = Vocabulary.from_instances(instances)
    model = Model.from_params(Params(config["model"]), vocab=vocab)
    batch = Batch(instances)
    batch.index_instances(vocab)
    return model.eval(), batch.as_tensor_dict()


def train_and_move(
    file: object, held_out: object, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> None:
    """Train, move the archive to an empty folder, in which everything goes on, and remove the rest
    of the run and the biLMs. Expected is the loss that training computed on the same data."""
    allennlp("train", file, "-s", folder / "run", *options)
    trained = json.loads((folder / "run" / "metrics.json").read_text())
    (elsewhere := folder / "elsewhere").mkdir()
    shutil.move(folder / "run" / "model.tar.gz", elsewhere)
    shutil.rmtree(folder / "run")
    shutil.rmtree(folder / "bilms", ignore_errors=True)
    monkeypatch.chdir(elsewhere)
    allennlp("evaluate", "model.tar.gz", held_out, "--output-file", "metrics.json")
    loss = json.loads(Path("metrics.json").read_text())["loss"]
    assert loss == pytest.approx(trained["validation_loss"], rel=1e-4)
