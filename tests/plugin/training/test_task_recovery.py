"""A task model with ELMo is killed and recovered."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

from tests.conftest import ROOT
from tests.plugin.models.test_training import KillCallback
from tests.plugin.training.toy_training import Killed

BATCHES = 20
"""Those of an epoch: 160 sentences in batches of 8."""


def train(folder: Path, kill_after: int | None = None) -> dict[str, Any]:
    """Trains `tagger_elmo.jsonnet` with `tiny`, and returns all weights and the metrics at the end.
    Both of its data loaders shuffle, and ELMo has dropout."""
    KillCallback.done, KillCallback.after = 0, kill_after
    variables = {"ELMO_ARCHIVE": "pretrained://tiny", "ELMO_DIM": "64"}
    file = str(ROOT / "training_configs" / "tagger_elmo.jsonnet")
    params = Params.from_file(file, ext_vars=variables).as_dict(quiet=True)
    params["train_data_path"] = str(ROOT / params["train_data_path"])
    params["validation_data_path"] = str(ROOT / params["validation_data_path"])
    params["trainer"] |= {
        "num_epochs": 3,
        "cuda_device": -1,
        "checkpointer": {"type": "bilm", "save_every_num_batches": 7},
        "callbacks": [{"type": "kill_for_test"}],
    }
    train_model(Params(params), str(folder), recover=folder.exists())
    found = {
        f"{name} {key}": tensor
        for name in ("best.th", "model_state_e3_b0.th")
        for key, tensor in torch.load(folder / name, weights_only=True).items()
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    scores = [v for k, v in sorted(metrics.items()) if "validation" in k]
    return {**found, "metrics": torch.tensor(scores)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("kill_after", [BATCHES, BATCHES + 3, 2 * BATCHES + 12])
def test_a_killed_tagger_ends_with_the_same_numbers(
    whole: dict[str, Any], kill_after: int, tmp_path: Path
) -> None:
    """The expected weights and metrics are those of a run that was not killed: after the last batch
    of the first epoch, and in the second and the third one. It is then recovered once more, with
    nothing left to train."""
    with pytest.raises(Killed):
        train(tmp_path / "run", kill_after)
    for found in (train(tmp_path / "run"), train(tmp_path / "run")):
        assert found.keys() == whole.keys()
        assert [name for name in whole if not torch.equal(found[name], whole[name])] == []
