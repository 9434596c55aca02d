from types import SimpleNamespace

import pytest
import torch
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.training.callbacks import ConfidenceChecksCallback
from torch import nn

from elmo_plugin import Elmo


def test_hooks_leave_a_bilm_out(bilm_files):
    """By definition of the check, it still finds the bias in front of a normalization, and by its
    own hooks everything but the biLM is seen."""
    elmo = Elmo.from_files(*bilm_files)
    model = nn.ModuleDict(
        {"elmo": elmo, "linear": nn.Linear(16, 4), "norm": nn.BatchNorm1d(4)}
    ).train()
    verification = NormalizationBiasVerification(model)
    verification.register_hooks()
    assert not any(module._forward_hooks for module in elmo.bilm.modules())
    assert all(module._forward_hooks for module in (elmo, model["linear"], model["norm"]))
    vectors = torch.from_numpy(elmo.embed("the dog threw it"))
    model["norm"](model["linear"](vectors))
    verification.destroy_hooks()
    verification.collect_detections()
    assert verification.detected_pairs == [("linear", "norm")]
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(("epochs", "batches"), [(0, 0), (0, 3), (2, 0)])
def test_a_recovered_run_has_no_hooks(epochs, batches):
    """They would stay for the whole run. The attributes are those of AllenNLP's trainer."""
    model = nn.Sequential(nn.Linear(2, 2))
    trainer = SimpleNamespace(
        _pytorch_model=model,
        _start_after_epochs_completed=epochs,
        _start_after_batches_in_epoch_completed=batches,
    )
    ConfidenceChecksCallback("").on_start(trainer)
    assert bool(model[0]._forward_hooks) == (epochs == batches == 0)
