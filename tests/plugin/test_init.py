"""What the plugin adds to the patches of AllenNLP, and that they serve a model with ELMo."""

import torch
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from torch import nn

import elmo_plugin.plugin  # noqa: F401
from allennlp_today.data import IMPORTED_BY_WORKERS
from elmo_plugin import Elmo
from tests.allennlp_today.test_models import check_tags, tagger


def test_hooks_leave_a_bilm_out(bilm_files) -> None:
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


def test_workers_of_a_data_loader_import_the_plugin() -> None:
    """By definition, once, so that they have its patches and its registered names."""
    assert IMPORTED_BY_WORKERS == ["elmo_plugin.plugin"]


def test_a_tagger_with_elmo(bilm_files) -> None:
    """The expected outputs are those of each sentence by itself, which has no padding."""
    options, weights = bilm_files
    embedder = {"type": "elmo", "options_file": options, "weight_file": weights}
    check_tags(tagger({"type": "elmo"}, embedder))
