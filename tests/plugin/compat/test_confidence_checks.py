import torch
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
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
