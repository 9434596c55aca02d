"""The configs of `models.libsonnet`, and what is done with them."""

import json
from pathlib import Path
from typing import Any

import _jsonnet
from allennlp.common import Params
from allennlp.common.plugins import import_plugins
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model

from tests.conftest import ROOT

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
