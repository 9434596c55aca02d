"""A task model with ELMo is killed and recovered."""

from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params

from tests.conftest import ROOT
from tests.plugin.models.test_training import assert_equal, read, train, train_and_kill

BATCHES = 20
"""Those of an epoch: 160 sentences in batches of 8."""


@pytest.fixture(scope="module")
def params() -> dict[str, Any]:
    """The config `tagger_elmo.jsonnet` with `tiny`. Both of its data loaders shuffle, and ELMo has
    dropout."""
    variables = {"ELMO_ARCHIVE": "pretrained://tiny", "ELMO_DIM": "64"}
    file = str(ROOT / "training_configs" / "tagger_elmo.jsonnet")
    found = Params.from_file(file, ext_vars=variables).as_dict(quiet=True)
    for key in ("train_data_path", "validation_data_path"):
        found[key] = str(ROOT / found[key])
    found["trainer"] |= {
        "num_epochs": 3,
        "cuda_device": -1,
        "checkpointer": {"type": "bilm", "save_every_num_batches": 7},
        "callbacks": [{"type": "kill_for_test"}],
    }
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, params: dict[str, Any]) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder, params)
    return folder


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kill_after", [BATCHES, BATCHES + 3, 2 * BATCHES + 12])
def test_a_killed_tagger_ends_with_the_same_numbers(whole, params, kill_after, tmp_path):
    """The expected weights and metrics are those of a run that was not killed: after the last batch
    of the first epoch, and in the second and the third one. It is then recovered once more, with
    nothing left to train."""
    run = tmp_path / "run"
    train_and_kill(run, kill_after, params)
    for _ in range(2):
        train(run, params)
        for name in ("best.th", "model_state_e3_b0.th"):
            assert_equal(read(run / name), read(whole / name))
        found, expected = (read(folder / "metrics.json") for folder in (run, whole))
        assert {k: v for k, v in found.items() if "validation" in k} == {
            k: v for k, v in expected.items() if "validation" in k
        }
