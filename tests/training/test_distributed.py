"""A `bilm` on two processes, over gloo, through AllenNLP's `distributed` block."""

from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

from tests.models.test_training import config


def run(folder: Path, rows: int, processes: int) -> dict[str, Any]:
    """The weights after two epochs with so many rows in each process; no dropout, no sampling."""
    params = config(folder.parent / "cache").as_dict()
    params["model"].update(dropout=0.0, n_negative_samples=None)
    params["data_loader"]["batch_size"] = rows
    params["trainer"]["callbacks"] = []
    if processes > 1:
        del params["trainer"]["cuda_device"]
        params["distributed"] = {"cuda_devices": [-1] * processes}
    train_model(Params(params), str(folder), include_package=["elmo_plugin"])
    return torch.load(folder / "best.th", weights_only=True)


def test_two_processes_with_half_the_rows_each_follow_one_with_all(tmp_path):
    """
    Expected values: the weights of one process. The warm state is the first process's, whose rows
    are half of all, and so is not compared.
    """
    expected = run(tmp_path / "one", rows=4, processes=1)
    found = run(tmp_path / "two", rows=2, processes=2)
    for name, tensor in expected.items():
        if "warm_state" not in name:
            torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=0, msg=name)
