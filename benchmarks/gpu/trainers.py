"""Trainings by AllenNLP, which this module imports, with `use_amp` on a GPU."""

import json
import logging
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

import elmo_plugin.plugin  # noqa: F401
from benchmarks.measure import Record

FIXTURES = Path(__file__).parents[2] / "fixtures"
TEXT, TAGGED = str(FIXTURES / "text/heldout.txt"), str(FIXTURES / "tagging/train.tsv")


def bilm(cache: str) -> dict[str, Any]:
    """A small biLM."""
    encoded = {"type": "bilm", "cache_dir": cache}
    lstm = {"dim": 32, "projection_dim": 8, "n_layers": 2, "cell_clip": 3.0, "proj_clip": 3.0}
    return {
        "dataset_reader": {"type": "bilm"},
        "train_data_path": TEXT,
        "vocabulary": {**encoded, "corpus": TEXT},
        "data_loader": {**encoded, "batch_size": 4, "window": 8},
        "model": {
            "type": "bilm",
            "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
            "lstm": {**lstm, "use_skip_connections": True},
            "n_negative_samples": 5,
        },
        "trainer": {"optimizer": {"type": "adagrad", "lr": 0.1}, "grad_norm": 10.0},
    }


def tagger(_: str) -> dict[str, Any]:
    """A tagger with a biLM that is fine-tuned with it."""
    elmo = {"type": "elmo", "pretrained": "tiny", "requires_grad": True}
    n_columns = 2 * 32
    return {
        "dataset_reader": {
            "type": "sequence_tagging",
            "token_indexers": {"elmo": {"type": "elmo"}},
            "max_instances": 8,
        },
        "train_data_path": TAGGED,
        "data_loader": {"batch_size": 4},
        "model": {
            "type": "simple_tagger",
            "text_field_embedder": {"token_embedders": {"elmo": elmo}},
            "encoder": {"type": "lstm", "input_size": n_columns, "hidden_size": 8},
        },
        "trainer": {"optimizer": {"type": "adam"}, "grad_norm": 5.0},
    }


def run(device: torch.device) -> Iterator[Record]:
    """The loss of an epoch, which is finite. AllenNLP's `use_amp` needs a GPU."""
    on_gpu = device.type == "cuda"
    for make in (bilm, tagger):
        with tempfile.TemporaryDirectory() as folder:
            config = make(f"{folder}/cache")
            of_device = {"cuda_device": 0 if on_gpu else -1, "use_amp": on_gpu}
            config["trainer"].update(num_epochs=1, **of_device)
            logging.disable(logging.INFO)
            train_model(Params(json.loads(json.dumps(config))), f"{folder}/run")
            logging.disable(logging.NOTSET)
            metrics = json.loads(Path(f"{folder}/run/metrics.json").read_text())
        loss = metrics["training_loss"]
        yield {"model": make.__name__, "use_amp": on_gpu, "loss": loss, "ok": math.isfinite(loss)}
