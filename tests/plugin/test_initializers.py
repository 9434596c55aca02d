"""A config's initializers set everything but the weights of a loaded biLM."""

import logging

import pytest
import torch
from allennlp.common import Params
from allennlp.nn.initializers import InitializerApplicator
from torch import nn

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo


@pytest.fixture
def model(bilm_files) -> nn.ModuleDict:
    elmo = Elmo.from_files(*bilm_files)
    return nn.ModuleDict({"elmo": elmo, "weight_hh_layer": nn.Linear(2, 2)})


def initialize(model: nn.Module, regexes: list, prevented: list[str]) -> None:
    params = Params({"regexes": regexes, "prevent_regexes": prevented})
    InitializerApplicator.from_params(params)(model)


@pytest.mark.parametrize("pattern", [".*", "weight", "bilm", r"^elmo\.bilm\..*weight"])
def test_a_loaded_bilm_is_left_as_it_is(model, pattern, bilm_files, caplog):
    """Expected: the weights of the files; and a warning with the pattern, even if it also matches
    others."""
    with caplog.at_level(logging.WARNING):
        initialize(model, [[pattern, {"type": "constant", "val": 7.0}]], [])
    expected = Elmo.from_files(*bilm_files).bilm.state_dict()
    for name, tensor in model["elmo"].bilm.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    (warning,) = [r.getMessage() for r in caplog.records if "biLM" in r.getMessage()]
    assert repr(pattern) in warning and "elmo.bilm." in warning


def test_a_loaded_bilm_is_not_replaced_by_another(model, tmp_path):
    """The parameters of a file would come without the biLM's other state, its warm state."""
    torch.save(model.state_dict(), tmp_path / "other.th")
    pretrained = {"type": "pretrained", "weights_file_path": str(tmp_path / "other.th")}
    with pytest.raises(InputError, match=r"'\.\*': expected no parameters of a biLM.*elmo\.bilm"):
        initialize(model, [[".*", pretrained]], [])
    with torch.no_grad():
        model["weight_hh_layer"].weight.fill_(7)
    initialize(model, [[".*", pretrained]], ["elmo.bilm"])
    assert not (model["weight_hh_layer"].weight == 7).any()


def test_other_parameters_are_initialized(model, caplog):
    """By hand: 7 everywhere but in the biLM, in the mix too, and no warning if the pattern does not
    match the biLM, or if the config itself prevents that."""
    with caplog.at_level(logging.WARNING):
        initialize(model, [[".*", {"type": "constant", "val": 7.0}]], [r"\.bilm\."])
        initialize(model, [["layer", {"type": "constant", "val": 7.0}]], [r"bilstm\.layers"])
    assert not [r for r in caplog.records if "biLM" in r.getMessage()]
    for name, parameter in model.named_parameters():
        if not name.startswith("elmo.bilm."):
            assert (parameter == 7).all(), name
