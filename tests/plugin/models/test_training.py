"""
These tests train a `bilm` with AllenNLP's own trainer, from a config: it learns, and resuming is
bit-identical.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.training.callbacks import TrainerCallback

from elmo_plugin.modules import sampled_softmax

ROOT = Path(__file__).parents[3]
TEXT = ROOT / "fixtures" / "text"


class Killed(BaseException):
    """Simulates a SIGKILL, because nothing in the trainer catches it."""


@TrainerCallback.register("kill_for_test")
class KillCallback(TrainerCallback):
    """Stops the process once it has done a number of batches."""

    after: int | None = None
    done = 0

    def on_batch(self, *args: Any, is_training: bool, **kwargs: Any) -> None:
        if is_training:
            KillCallback.done += 1
            if KillCallback.done == KillCallback.after:
                raise Killed


def config(cache: Path) -> Params:
    """
    Return the config of a tiny biLM with frequent checkpoints, whose encoded corpora stay in the
    test's folder.
    """
    encoded = {"type": "bilm", "cache_dir": str(cache)}
    params = {
        "dataset_reader": {"type": "bilm"},
        "train_data_path": str(TEXT / "train.txt"),
        "validation_data_path": str(TEXT / "heldout.txt"),
        "vocabulary": {**encoded, "corpus": str(TEXT / "train.txt"), "min_count": 2},
        "data_loader": {**encoded, "batch_size": 4, "window": 8},
        "validation_data_loader": {**encoded, "batch_size": 2, "window": 8, "shuffle": None},
        "model": {
            "type": "bilm",
            "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
            "lstm": {
                "dim": 24,
                "projection_dim": 8,
                "n_layers": 2,
                "cell_clip": 3,
                "proj_clip": 3,
                "use_skip_connections": True,
            },
            "n_negative_samples": 20,
        },
        "trainer": {
            "optimizer": {"type": "adagrad", "lr": 0.2, "initial_accumulator_value": 1.0},
            "grad_norm": 10.0,
            "num_epochs": 2,
            "cuda_device": -1,
            "validation_metric": "-perplexity",
            "checkpointer": {"type": "bilm", "save_every_num_batches": 7},
            "callbacks": [{"type": "kill_for_test"}, {"type": "learning_curve", "interval": 5}],
        },
    }
    return Params(json.loads(json.dumps(params)))


def train(folder: Path, kill_after: int | None = None, recover: bool = False) -> dict[str, Any]:
    KillCallback.done, KillCallback.after = 0, kill_after
    model = train_model(config(folder.parent / "cache"), str(folder), recover=recover)
    assert model is not None
    return model.state_dict()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the weights of the uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, train(folder)


def test_it_learns(whole):
    """The held-out perplexity after two epochs is below that of guessing, which is the number of
    words."""
    folder, _ = whole
    metrics = json.loads((folder / "metrics.json").read_text())
    n_words = len((folder / "vocabulary" / "words.txt").read_text().splitlines())
    assert metrics["best_validation_perplexity"] < n_words / 2
    forward, backward = (metrics[f"validation_{d}_perplexity"] for d in ("forward", "backward"))
    assert metrics["validation_perplexity"] == pytest.approx((forward * backward) ** 0.5)
    assert "training_sampled_loss" in metrics
    assert (folder / "learning_curve.png").stat().st_size > 0


@pytest.mark.parametrize("kill_after", [3, 25, 70])
def test_a_killed_run_ends_with_the_same_bits(whole, tmp_path, kill_after):
    """
    The expected weights are those of the uninterrupted run. A run is killed before the first
    checkpoint, in the first epoch, and in the second; an epoch has some fifty batches.
    """
    folder, expected = whole
    with pytest.raises(Killed):
        train(tmp_path / "killed", kill_after=kill_after)
    found = train(tmp_path / "killed", recover=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    runs = (folder, tmp_path / "killed")
    curves = [(run / "learning_curve.jsonl").read_text() for run in runs]
    assert curves[0].splitlines()[:-1] == curves[1].splitlines()[:-1]


def test_a_nan_loss_stops_the_run_and_keeps_the_checkpoint(whole, tmp_path, monkeypatch):
    """The message names the batch. After --recover without the fault, the expected weights are
    those of the run that never had it."""
    _, expected = whole
    calls = count(1)

    def broken(*args: Any) -> torch.Tensor:
        return unbroken(*args) / (next(calls) != 50)  # both directions of 25 batches

    unbroken = sampled_softmax.sampled_softmax_loss
    with (
        monkeypatch.context() as patch,
        pytest.raises(FloatingPointError, match=r"batch 25 .* inf"),
    ):
        patch.setattr(sampled_softmax, "sampled_softmax_loss", broken)
        train(tmp_path / "broken")
    found = train(tmp_path / "broken", recover=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


def test_the_papers_trainer_trains(tmp_path, monkeypatch):
    """The trainer block of `bilm_1b.jsonnet`, which clips in the optimizer, trains a tiny model:
    the values of Adagrad's accumulators have grown from 1, except those of rows that were not
    read."""
    monkeypatch.setenv("BILM_TEXT", "text")
    params = config(tmp_path / "cache").as_dict()
    published = Params.from_file(str(ROOT / "training_configs" / "bilm_1b.jsonnet")).as_dict()
    params["model"]["sparse_gradients"] = published["model"]["sparse_gradients"]
    params["trainer"] = {**published["trainer"], "num_epochs": 1, "cuda_device": -1}
    train_model(Params(params), str(tmp_path / "run"))
    state = torch.load(next((tmp_path / "run").glob("training_state_*")))["optimizer"]["state"]
    assert state and all((entry["sum"] > 1).any() for entry in state.values())


@pytest.mark.parametrize(
    "name",
    ["bilm", "bilm_1b", "bilm_small", "bilm_tf", "bilm_tiny", "tagger", "tagger_elmo"],
)
def test_configs_are_read(name, monkeypatch):
    """
    The shipped configs evaluate. The paper's differs from bilm_tf.jsonnet in its sizes and data.
    """
    monkeypatch.setenv("BILM_TEXT", "text")
    monkeypatch.setenv("ELMO_DIM", "128")
    monkeypatch.setenv("ELMO_ARCHIVE", "model.tar.gz")
    found = Params.from_file(str(ROOT / "training_configs" / f"{name}.jsonnet")).as_dict()
    assert found["model"]["type"] in ("bilm", "simple_tagger")
    if name == "bilm_1b":
        assert sum(number for _, number in found["model"]["char_cnn"]["filters"]) == 2048
        small = Params.from_file(str(ROOT / "training_configs" / "bilm_tf.jsonnet")).as_dict()
        norm = {"type": "clipped_adagrad", "grad_norm": small["trainer"]["grad_norm"]}
        assert found["trainer"]["optimizer"] == {**small["trainer"]["optimizer"], **norm}
        assert found["trainer"]["grad_norm"] is False
        assert found["vocabulary"]["corpus"] == found["train_data_path"]
