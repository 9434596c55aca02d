from types import SimpleNamespace

import pytest
import torch
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.training.callbacks import ConfidenceChecksCallback
from torch import nn

from allennlp_today import callbacks


class WithoutNormalization(nn.Sequential):
    """A module that cannot work with hooks."""


def test_hooks_leave_out_what_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition of the check, it still finds the bias in front of a normalization, and by its
    own hooks everything but the listed module is seen."""
    monkeypatch.setattr(callbacks, "WITHOUT_HOOKS", [WithoutNormalization])
    left_out, linear = WithoutNormalization(nn.Linear(3, 16)), nn.Linear(16, 4)
    model = nn.Sequential(left_out, linear, nn.BatchNorm1d(4)).train()
    verification = NormalizationBiasVerification(model)
    verification.register_hooks()
    assert not any(module._forward_hooks for module in left_out.modules())
    assert all(module._forward_hooks for module in (model, *model[1:]))
    model(torch.randn(5, 3))
    verification.destroy_hooks()
    verification.collect_detections()
    assert verification.detected_pairs == [("1", "2")]
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(("epochs", "batches"), [(0, 0), (0, 3), (2, 0)])
def test_a_recovered_run_has_no_hooks(epochs: int, batches: int) -> None:
    """They would stay for the whole run. The attributes are those of AllenNLP's trainer."""
    model = nn.Sequential(nn.Linear(2, 2))
    trainer = SimpleNamespace(
        _pytorch_model=model,
        _start_after_epochs_completed=epochs,
        _start_after_batches_in_epoch_completed=batches,
    )
    ConfidenceChecksCallback("").on_start(trainer)  # type: ignore[arg-type]
    assert bool(model[0]._forward_hooks) == (epochs == batches == 0)
