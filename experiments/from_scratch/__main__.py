import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.plugin.callbacks.keep_freed_memory import keep_freed_memory
from experiments import from_scratch as package
from experiments import new_parser, run
from experiments.from_scratch.page import FILE, SHOWN, by_time
from experiments.from_scratch.text import Text, halved, n_counted, probe, read_text
from experiments.from_scratch.transformers import (
    ROWS,
    WINDOW,
    Transformer,
    Units,
    perplexity,
    streams,
    trained,
    vectors,
)
from experiments.probe import Tagged, read_treebank
from experiments.rows import ORIGIN, ROOT, Row, read_rows, save_rows

CONFIG = ROOT / "training_configs" / "bilm.jsonnet"
DIM = 512
"""The cells of that config's biLM; with others, its projection and its filters grow as much."""
MINUTES = 1, 2, 4, 8, 16, 32, 64
"""CPU minutes at which a copy of a transformer is measured."""


def of_transformer(
    kind: str, text: Text, treebank: Sequence[Tagged], arguments: Any
) -> Iterator[tuple[Row, Row, float]]:
    """Settings, metrics and seconds of each copy of a transformer."""
    units = Units(text, kind)
    torch.manual_seed(arguments.seed)
    size = {name: getattr(arguments, name) for name in ("layers", "dim", "dropout")}
    model = Transformer(kind, units.size, *size.values()).train()
    sentences = [[k for word in units(s) for k in word] for s in text.train]
    batches = streams(sentences, random.Random(arguments.seed))
    n_units, best = sum(1 + len(s) for s in sentences), math.inf
    for copied, seconds, n in trained(model, batches, arguments.rate, arguments.minutes):
        metrics: Row = {"epochs": n * ROWS * WINDOW / n_units}
        found = [vectors(copied, units, part.sentences) for part in treebank]
        metrics["accuracy"] = probe(found, treebank)
        if kind != "masked":
            metrics["perplexity"] = perplexity(copied, units, text)
        yield size | {"rate": arguments.rate, "steps": n}, metrics, seconds
        reached = metrics.get("perplexity", -metrics["accuracy"])
        if reached >= best:
            return
        best = reached


def of_elmo(text: Text, treebank: Sequence[Tagged], arguments: Any) -> tuple[Row, Row, float]:
    """Settings, metrics and seconds of a biLM."""
    with TemporaryDirectory() as folder:
        for name in ("train", "heldout"):
            lines = "".join(" ".join(s) + "\n" for s in getattr(text, name))
            Path(folder, f"{name}.txt").write_text(lines, "utf-8")
        dim, dropout = arguments.dim, arguments.dropout
        filters = Params.from_file(CONFIG).as_dict()["model"]["char_cnn"]["filters"]
        changes: Row = {
            "train_data_path": f"{folder}/train.txt",
            "validation_data_path": None,
            "vocabulary.corpus": f"{folder}/train.txt",
            "numpy_seed": arguments.seed,
            "pytorch_seed": arguments.seed,
            "random_seed": arguments.seed,
            "model.precision": "bf16",
            "model.dropout": dropout,
            "model.char_cnn.filters": [[width, n * dim // DIM or 1] for width, n in filters],
            "model.lstm.dim": dim,
            "model.lstm.projection_dim": dim // 8,
            "trainer.num_epochs": arguments.epochs,
            "trainer.validation_metric": "-sampled_loss",
        }
        params = Params.from_file(CONFIG, json.dumps(changes))
        started = time.process_time()
        train_model(params, f"{folder}/model")
        seconds = time.process_time() - started
        archive = f"{folder}/model/model.tar.gz"
        model, elmo = LanguageModel.from_archive(archive), Elmo.from_archive(archive)
        total = 0.0
        for scores in model.score(text.heldout, base="e"):
            total -= scores.forward[[*scores.in_vocabulary, True]].sum()
        found = [
            np.concatenate([x.mean(0) for x in elmo.embed(part.sentences, layer="all")])
            for part in treebank
        ]
        metrics = {
            "epochs": arguments.epochs,
            "perplexity": math.exp(total / n_counted(text)),
            "accuracy": probe(found, treebank),
        }
    settings = {"layers": 2, "dim": dim, "dropout": dropout, "steps": arguments.epochs}
    return settings, metrics, seconds


def main() -> None:
    parser = new_parser(package.__doc__)
    parser.prog = "python -m experiments.from_scratch"
    parser.add_argument("text", type=Path)
    parser.add_argument("treebank", type=Path)
    models = parser.add_subparsers(dest="model", required=True, metavar="MODEL")
    for kind, name in SHOWN.items():
        is_bilm = kind == "elmo"
        own = models.add_parser(kind, help=name)
        own.add_argument("--tokens", type=int, help="of the training text")
        size = "cells of the LSTMs" if is_bilm else "size of the vectors"
        own.add_argument("--dim", type=int, default=DIM if is_bilm else 128, help=size)
        own.add_argument("--dropout", type=float, default=0.0 if is_bilm else 0.1)
        own.add_argument("--seed", type=int, default=0)
        own.add_argument("--results", type=Path, default=FILE)
        if is_bilm:
            own.add_argument("--epochs", type=int, default=1)
        else:
            own.add_argument("--layers", type=int, default=2)
            own.add_argument("--rate", type=float, default=1e-3)
            copied = "CPU minutes at which a copy is measured"
            own.add_argument("--minutes", type=float, nargs="+", default=MINUTES, help=copied)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as in the biLM's config
    text = read_text(arguments.text, arguments.tokens)
    treebank = halved(read_treebank(arguments.treebank))
    kind = arguments.model
    results: Any = (
        [of_elmo(text, treebank, arguments)]
        if kind == "elmo"
        else of_transformer(kind, text, treebank, arguments)
    )
    for settings, metrics, seconds in results:
        common = {"model": kind, "tokens": sum(map(len, text.train)), "seed": arguments.seed}
        row = {
            "bilm": None,
            "settings": common | settings,
            "metrics": metrics,
            "seconds": round(seconds, 1),
            **ORIGIN,
        }
        save_rows(arguments.results, [row])
        print(json.dumps(row), flush=True)
    print(by_time(read_rows(arguments.results)))


if __name__ == "__main__":
    run("from_scratch", main)
