"""`bilm_finetune.jsonnet` trains, as its own first lines say, but for the sizes and the caches."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from allennlp.models import Model
from allennlp.training.callbacks import TrainerCallback

from tests.conftest import BLOCKS, ROOT, WORDS, allennlp

CONFIG = ROOT / "training_configs" / "bilm_finetune.jsonnet"
SENTENCES = ["he threw the cat to the dog .", "the cat sees the stick .", "to the cat he sees ."]


@TrainerCallback.register("start_for_test")
class StartCallback(TrainerCallback):
    """Keeps the weights that the first step of training finds."""

    weights: dict[str, torch.Tensor]

    def on_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        StartCallback.weights = {k: v.clone() for k, v in trainer.model.state_dict().items()}


def test_it_trains_on_the_text_of_a_task(bilm_archive, tmp_path, monkeypatch):
    """Expected at the start: the archive's weights and vocabulary. And at the end: that training
    has moved the weights, that the new archive needs no other, and that the perplexity on the text
    that it was trained with is below that of guessing, the number of words."""
    archive = shutil.copy(bilm_archive, tmp_path)
    data, task = tmp_path / "data.jsonl", tmp_path / "task.jsonnet"
    data.write_text("".join(json.dumps({"text": s, "label": "a"}) + "\n" for s in SENTENCES))
    reader = {"type": "text_classification_json", "tokenizer": "whitespace"}
    keys = ("train_data_path", "validation_data_path")
    task.write_text(json.dumps({"dataset_reader": reader, **dict.fromkeys(keys, str(data))}))
    overrides = {
        "model.lstm": BLOCKS["lstm"],
        "model.char_cnn": BLOCKS["char_cnn"],
        "model.n_negative_samples": 4,
        "model.precision": "fp32",
        "trainer.cuda_device": -1,
        "trainer.num_epochs": 60,
        "trainer.learning_rate_scheduler.warmup_steps": 1,
        "trainer.callbacks": [{"type": "start_for_test"}],
    }
    for key in ("data_loader", "validation_data_loader"):
        overrides[f"{key}.cache_dir"] = str(tmp_path / "cache")
        overrides |= {f"{key}.batch_size": 2, f"{key}.window": 5}
    texts = [f"task://{task}#{key}" for key in keys]
    for name, value in zip(("ARCHIVE", "TEXT", "DEV"), (archive, *texts)):
        monkeypatch.setenv(f"BILM_{name}", value)
    options = ["--include-package", "elmo_plugin", "--overrides", json.dumps(overrides)]
    allennlp("train", CONFIG, "-s", tmp_path / "tuned", *options)

    before = Model.from_archive(bilm_archive).state_dict()
    start = StartCallback.weights
    Path(archive).unlink()
    after = Model.from_archive(tmp_path / "tuned" / "model.tar.gz").state_dict()
    words = (tmp_path / "tuned" / "vocabulary" / "words.txt").read_text().splitlines()
    assert words == WORDS
    for name, tensor in before.items():
        assert torch.equal(start[name], tensor), name
    for name in ("bilm.bilstm.layers.0.input_weight", "softmax.weight"):
        assert not torch.equal(after[name], before[name]), name
    metrics = json.loads((tmp_path / "tuned" / "metrics.json").read_text())
    assert metrics["best_validation_perplexity"] < len(WORDS)
