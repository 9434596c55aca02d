"""These tests train a `bilm` in several processes, over gloo, through `allennlp train` and its
`distributed` block."""

import copy
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.training.callbacks import TrainerCallback
from torch import multiprocessing
from torch.multiprocessing import ProcessExitedException

from elmo_plugin.plugin.training.checkpoint_files import CheckpointFiles, Point
from tests.conftest import allennlp
from tests.plugin.models.test_training import assert_equal, config
from tests.plugin.training.toy_training import Weights


@TrainerCallback.register("sigkill_for_test")
class SigkillCallback(TrainerCallback):
    """Kills each process once it has done a number of batches."""

    after: int | None = None
    done = 0

    def on_batch(self, *args: Any, is_training: bool, **kwargs: Any) -> None:
        self.done += is_training
        if self.done == SigkillCallback.after:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(autouse=True, scope="module")
def forked() -> Iterator[None]:
    """Make processes start by forking, because importing AllenNLP takes longer than a whole
    test."""
    fork = partial(multiprocessing.start_processes, start_method="fork")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "spawn", fork)
        yield


def processes(cache: Path, number: int) -> dict[str, Any]:
    """Return the config of several processes with two rows each."""
    params = config(cache).as_dict()
    params["data_loader"]["batch_size"] = 2
    del params["trainer"]["cuda_device"]
    params["trainer"]["callbacks"] = [{"type": "sigkill_for_test"}]
    params["distributed"] = {"cuda_devices": [-1] * number}
    return params


def as_one(params: dict[str, Any]) -> dict[str, Any]:
    """Return the config of one process that reads the rows of two."""
    one = copy.deepcopy(params)
    del one["distributed"]
    one["trainer"]["cuda_device"] = -1
    for loader in ("data_loader", "validation_data_loader"):
        one[loader]["batch_size"] *= 2
    return one


def train(params: dict[str, Any], folder: Path, *options: str) -> Weights:
    """Trains, and returns the weights of the best epoch."""
    file = folder.with_suffix(".json")
    Params(params).to_file(str(file))
    allennlp("train", file, "-s", folder, *options)
    return torch.load(folder / "best.th", weights_only=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, forked: None) -> tuple[Path, Weights]:
    """Return the folder and the weights of the uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    return folder / "run", train(processes(folder / "cache", 3), folder / "run")


@pytest.mark.parametrize(
    "checkpointer, kills, last_saved",
    [
        pytest.param({}, [25, 46], [Point(0, 21), Point(1, 21)], marks=pytest.mark.long),
        # The first process announces each save one batch ahead.
        pytest.param(
            {"save_every_num_batches": None, "save_every_num_seconds": 0},
            [25],
            [Point(0, 24)],
            marks=pytest.mark.long,
        ),
        # PyTorch arranges gradients in another order after the first batch.
        ({"save_every_num_batches": 1}, [2, 1], [Point(0, 1), Point(0, 1)]),
    ],
    ids=["batches", "seconds", "first"],
)
def test_three_killed_processes_end_with_the_same_bits(
    checkpointer: dict[str, Any],
    kills: list[int],
    last_saved: list[Point],
    whole: tuple[Path, Weights],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All processes get a SIGKILL in mid-epoch, some batches after a checkpoint, and one run
    another one after `--recover`, in the second epoch. The expected states are those of the
    uninterrupted run, with each process's rows and random states. Two processes would not show in
    which order gradients are summed, because a sum of two numbers has only one."""
    params = processes(tmp_path / "cache", 3)
    params["trainer"]["checkpointer"].update(checkpointer)
    killed = tmp_path / "killed"
    for after, options, last in zip(kills, [[], ["--recover"]], last_saved):
        monkeypatch.setattr(SigkillCallback, "after", after)
        with pytest.raises(ProcessExitedException, match="SIG"):
            train(params, killed, *options)
        for rank in range(3):
            assert CheckpointFiles(str(killed), rank, world_size=3).complete()[0] == last
    monkeypatch.setattr(SigkillCallback, "after", None)
    folder, expected = whole
    assert_equal(train(params, killed, "--recover"), expected)
    # The mean of the batches since the checkpoint is nearly that of their tokens.
    metrics = json.loads((killed / "metrics_epoch_0.json").read_text())
    assert metrics["training_loss"] == pytest.approx(metrics["training_sampled_loss"], rel=0.1)
    for rank in range(3):
        name = f"rank_state_e2_b0_w{rank}of3.th"
        assert (killed / name).read_bytes() == (folder / name).read_bytes()
