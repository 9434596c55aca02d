"""`bilm_finetune.jsonnet` trains, as its own first lines say, but for the sizes and the caches."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from allennlp.commands import main
from allennlp.training.callbacks import TrainerCallback

from elmo_plugin.models.load import load_language_model
from tests.conftest import BLOCKS, WORDS

CONFIG = Path(__file__).parents[2] / "training_configs" / "bilm_finetune.jsonnet"
# In another order of frequency than `WORDS`, and with two words that are not among them.
SENTENCES = ["he threw the cat to the dog .", "the cat sees the stick .", "to the cat he sees ."]
NEW_WORDS = {"cat", "sees"}


@TrainerCallback.register("start_for_test")
class StartCallback(TrainerCallback):
    """Keeps the weights that the first step of training finds."""

    weights: dict[str, torch.Tensor]

    def on_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        StartCallback.weights = {k: v.clone() for k, v in trainer.model.state_dict().items()}


def test_it_trains_on_from_the_archive(bilm_archive, tmp_path, monkeypatch):
    """
    Expected at the start: the archive's weights, those of the softmax by word. And at the end:
    that training has moved every one of these, and that the perplexity on the text that it was
    trained with is below that of guessing, the number of words.
    """
    text = tmp_path / "text.txt"
    text.write_text("\n".join(SENTENCES * 20))
    overrides = {
        "model.lstm": BLOCKS["lstm"],
        "model.char_cnn": BLOCKS["char_cnn"],
        "model.n_negative_samples": 4,
        "trainer.cuda_device": -1,
        "trainer.callbacks": [{"type": "start_for_test"}],
    }
    for key in ("vocabulary", "data_loader", "validation_data_loader"):
        overrides[f"{key}.cache_dir"] = str(tmp_path / "cache")
    for key in ("data_loader", "validation_data_loader"):
        overrides |= {f"{key}.batch_size": 2, f"{key}.window": 5}
    for name, value in {"ARCHIVE": bilm_archive, "TEXT": text, "DEV": text}.items():
        monkeypatch.setenv(f"BILM_{name}", str(value))
    command = ["allennlp", "train", CONFIG, "--include-package", "elmo_plugin", "-s"]
    command += [tmp_path / "tuned", "--overrides", json.dumps(overrides)]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    main(prog="allennlp")

    before = load_language_model(bilm_archive).state_dict()
    start = StartCallback.weights
    after = load_language_model(tmp_path / "tuned" / "model.tar.gz").state_dict()
    words = (tmp_path / "tuned" / "vocabulary" / "words.txt").read_text().splitlines()
    assert set(words) == set(WORDS) | NEW_WORDS and words[: len(WORDS)] != WORDS
    for name, tensor in before.items():
        if name.startswith("bilm."):
            assert torch.equal(start[name], tensor), name
    for k, word in enumerate(words):
        if word not in NEW_WORDS:
            row = before["softmax.weight"][WORDS.index(word)]
            assert torch.equal(start["softmax.weight"][k], row), word
            assert not torch.equal(after["softmax.weight"][k], row), word
    layers = "bilm.bilstm.layers.0.input_weight"
    assert not torch.equal(after[layers], before[layers])
    metrics = json.loads((tmp_path / "tuned" / "metrics.json").read_text())
    assert metrics["best_validation_perplexity"] < len(words)
