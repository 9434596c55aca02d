"""The mean loss of an epoch that is resumed. `test_checkpointer.py` tests weights and metrics."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from allennlp.training import TrainerCallback

from tests.plugin.training.toy_training import BATCHES, Killed, killed_before, make_trainer


@TrainerCallback.register("losses_for_test")
class Losses(TrainerCallback):
    """Stores the loss of each batch of the first epoch, and the mean that is shown with it."""

    found: list[tuple[float, float]]

    def on_batch(self, *args: Any, is_training: bool, **kwargs: Any) -> None:
        metrics, epoch = args[3:5]
        if is_training and epoch == 0:
            Losses.found.append((metrics["batch_loss"], metrics["loss"]))


def test_the_mean_loss_of_a_resumed_epoch(tmp_path: Path) -> None:
    """By definition: after each batch and at the end, the mean of the batches since the
    checkpoint, which is the one after two batches."""
    options = {
        "callbacks": [{"type": "losses_for_test"}],
        "checkpointer": {"save_every_num_batches": 2},
    }
    Losses.found = []
    with pytest.raises(Killed):
        make_trainer(tmp_path, killed_before(4), **options).train()
    assert len(Losses.found) == 3
    Losses.found = []
    make_trainer(tmp_path, **options).train()
    losses, means = zip(*Losses.found)
    assert len(losses) == BATCHES - 2
    expected = [numpy.mean(losses[: k + 1]) for k in range(len(losses))]
    assert means == pytest.approx(expected)
    metrics = json.loads((tmp_path / "metrics_epoch_0.json").read_text())
    assert metrics["training_loss"] == pytest.approx(expected[-1])
