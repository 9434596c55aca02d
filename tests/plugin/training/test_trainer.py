"""These tests run other commands and callbacks of AllenNLP with a `bilm` and its windows."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from allennlp.common import Params
from matplotlib.axes import Axes
from tensorboardX import SummaryWriter
from wandb.sdk.wandb_run import Run

from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.plugin.callbacks.learning_curve import LearningCurveCallback
from tests.conftest import allennlp
from tests.plugin.models.test_training import TEXT, changed

BATCH_SIZE = 4


GIVEN: dict[str, list[dict[str, float]]] = {"tensorboard": [], "wandb": []}
"""What the log writers were given."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that both log writers have watched."""
    folder = tmp_path_factory.mktemp("trainer")
    every = {"summary_interval": 10, "distribution_interval": 20, "batch_size_interval": 10}
    callbacks = [{"type": "tensorboard", **every}, {"type": "wandb", **every}]
    params = changed(folder, num_epochs=1, callbacks=callbacks)
    params["data_loader"]["batch_size"] = BATCH_SIZE
    Params(params).to_file(str(folder / "config.json"))
    log, add_scalar = Run.log, SummaryWriter.add_scalar

    def spy_on_log(self: Run, data: dict[str, float], *args: Any, **kwargs: Any) -> None:
        GIVEN["wandb"].append(data)
        log(self, data, *args, **kwargs)

    def spy_on_scalars(self: SummaryWriter, name: str, value: float, *args: Any) -> None:
        GIVEN["tensorboard"].append({name: value})
        add_scalar(self, name, value, *args)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Run, "log", spy_on_log)
        monkeypatch.setattr(SummaryWriter, "add_scalar", spy_on_scalars)
        for name in ("CONFIG_DIR", "CACHE_DIR", "DATA_DIR"):
            monkeypatch.setenv(f"WANDB_{name}", str(folder))
        for name, value in (("MODE", "offline"), ("SILENT", "true"), ("ERROR_REPORTING", "false")):
            monkeypatch.setenv(f"WANDB_{name}", value)
        allennlp("train", folder / "config.json", "-s", folder / "run")
    return folder / "run"


def metrics(run: Path) -> dict[str, Any]:
    return json.loads((run / "metrics.json").read_text())


@pytest.mark.parametrize(
    ("writer", "files"),
    [("tensorboard", "log/*/events.*"), ("wandb", "wandb/offline-run-*/run-*.wandb")],
)
def test_log_writers(run: Path, writer: str, files: str) -> None:
    """The expected values are the run's own metrics, and the rows of a batch in the config."""
    sizes = [file.stat().st_size for file in run.glob(files)]
    assert sizes and all(sizes)
    for name, value in [
        ("train/batch_size", BATCH_SIZE),
        ("train/sampled_loss", metrics(run)["training_sampled_loss"]),
        ("validation/perplexity", metrics(run)["validation_perplexity"]),
    ]:
        assert {data[name] for data in GIVEN[writer] if name in data} == {value}


def test_evaluate(run: Path, tmp_path: Path) -> None:
    """The expected values are those that training found for the same text."""
    file = tmp_path / "metrics.json"
    allennlp("evaluate", run / "model.tar.gz", TEXT / "heldout.txt", "--output-file", file)
    found = json.loads(file.read_text())
    for name in ("perplexity", "forward_perplexity", "backward_perplexity"):
        assert found[name] == pytest.approx(metrics(run)[f"best_validation_{name}"])


def give(callback: LearningCurveCallback, number: int, loss: float, penalty: float = 0.0) -> None:
    """Tell a callback of a batch as the trainer does, of epochs of three batches."""
    trainer: Any = SimpleNamespace(_total_batches_completed=number)
    found = {"loss": torch.tensor(loss + penalty), "reg_loss": torch.tensor(penalty)}
    epoch, batch = divmod(number - 1, 3)
    callback.on_batch(trainer, [], [found], {}, epoch, batch + 1, is_training=True)


def lines(folder: Path) -> list[tuple[int, float]]:
    found = map(json.loads, (folder / "learning_curve.jsonl").read_text().splitlines())
    return [(line["batch"], line["training_loss"]) for line in found]


def test_lines_of_a_run_that_was_killed_are_removed(tmp_path: Path) -> None:
    """By hand: a run that was killed before its first checkpoint starts again, is killed after a
    checkpoint, and is resumed. The curve has no line of the first run, and none twice."""
    saved: dict[str, Any] | None = None
    for first, last, loss in ((1, 8, 9.0), (1, 6, 1.0), (5, 8, 2.0)):
        callback = LearningCurveCallback(str(tmp_path), interval=2)
        if first == 5:
            assert saved is not None
            callback.load_state_dict(saved)
        callback.on_start(SimpleNamespace(_total_batches_completed=0))
        for number in range(first, last + 1):
            give(callback, number, loss)
            if number == 4:
                saved = callback.state_dict()
    assert lines(tmp_path) == [(2, 1.0), (4, 1.0), (6, 2.0), (8, 2.0)]


def test_the_curve_of_short_epochs_without_the_penalty(tmp_path: Path) -> None:
    """By hand: four epochs of three batches have a line after batches 5 and 10. The trainer adds a
    regularizer's penalty, here 100, to the loss."""
    callback = LearningCurveCallback(str(tmp_path), interval=5)
    for number in range(1, 13):
        give(callback, number, float(number), penalty=100.0)
    assert lines(tmp_path) == [(5, 3.0), (10, 8.0)]


def test_the_picture_of_a_task(tmp_path: Path) -> None:
    """It has the losses of the task's own training and validation, which are those that are given;
    the softmax and the perplexities are a biLM's."""
    callback = LearningCurveCallback(str(tmp_path), interval=1)
    trainer: Any = SimpleNamespace(_total_batches_completed=1)
    give(callback, 1, 3.0)
    with patch.object(Axes, "plot") as plot, patch.object(Axes, "legend"):
        callback.add_validation(trainer, {"validation_loss": 2.0, "validation_accuracy": 0.5})
    found = {call.kwargs["label"]: call.args[:2] for call in plot.call_args_list}
    assert found == {"training": ((1,), (3.0,)), "held-out": ((1,), (2.0,))}


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """/dev/full is the operating system's own full disk."""
    callback = LearningCurveCallback(str(tmp_path))
    callback.path.symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match=r"learning_curve\.jsonl: could not be written"):
        give(callback, 20, 1.0)
