"""
The command `elmo-mix`; tests/elmo/test_mixes.py has the archive of a trained model.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from allennlp.modules.token_embedders import ElmoTokenEmbedder as StockEmbedder
from torch import Tensor

from elmo_plugin.checks import InputError
from tests.conftest import allennlp

MIX = "_text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0"


elmo_mix = partial(allennlp, "elmo-mix")


def save(folder: Path, state: dict[str, Tensor]) -> Path:
    """Write weights as in the folder of a training run."""
    folder.mkdir()
    torch.save(state, folder / "best.th")
    return folder


def test_stock_elmo_and_top_layer(bilm_files, tmp_path, capsys):
    """The weights are those of AllenNLP's own embedder, with w = (log 2, 0, 0), so that s is (1/2,
    1/4, 1/4) by hand. A mix without w is the top layer, and `gamma` of a layer norm is no mix."""
    stock = StockEmbedder(*bilm_files)
    torch.nn.init.constant_(stock._elmo.scalar_mix_0.scalar_parameters[0], torch.tensor(2.0).log())
    prefix = MIX.removesuffix("_elmo.scalar_mix_0")
    state = {f"{prefix}{name}": tensor for name, tensor in stock.state_dict().items()}
    run = save(tmp_path / "run", {**state, "encoder.layer_norm.gamma": torch.ones(8)})
    top = save(tmp_path / "top", {"elmo.scalar_mix_0.gamma": torch.tensor([1.5])})
    elmo_mix(run, top)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{run} {MIX}: s 0.5000 0.2500 0.2500, gamma 1.0000",
        f"{top} elmo.scalar_mix_0: s top layer only, gamma 1.5000",
    ]


def test_bad_input(bilm_archive, tmp_path, monkeypatch):
    """The error names the archive, once at its beginning, or the argument."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no").mkdir()
    gap = {f"{MIX}.gamma": torch.ones(1), f"{MIX}.scalar_parameters.1": torch.ones(1)}
    code = {"elmo.scalar_mix_0.gamma": torch.nn.Linear(1, 1)}
    (tmp_path / "file").write_text("no archive")
    for archive, message in (
        ("./file", r"^(\./)?file: expected a model\.tar\.gz, found another"),
        (bilm_archive, r"model\.tar\.gz: expected a model with a mix of"),
        ("gone", r"^archive: gone: expected the model\.tar\.gz"),
        (tmp_path / "no", r"no: expected weights, weights\.th or best\.th"),
        (save(tmp_path / "gap", gap), rf"gap: {MIX}: expected gamma and scalar_parameters"),
        (save(tmp_path / "code", code), r"code/best\.th: expected tensors and plain .*Linear"),
    ):
        with pytest.raises((InputError, FileNotFoundError), match=message):
            elmo_mix(archive)
