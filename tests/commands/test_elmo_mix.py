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
from tests.conftest import BiLMFiles, allennlp

MIX = "_text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0"


elmo_mix = partial(allennlp, "elmo-mix")


def save(folder: Path, state: dict[str, Tensor]) -> Path:
    """Write weights as in the folder of a training run."""
    folder.mkdir()
    torch.save(state, folder / "best.th")
    return folder


def test_stock_elmo_and_top_layer(
    bilm_files: BiLMFiles, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
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


def test_bad_input(bilm_archive: str, tmp_path: Path) -> None:
    """The error names the archive or the argument."""
    with pytest.raises(InputError, match=r"model\.tar\.gz: expected a model with a mix of"):
        elmo_mix(bilm_archive)
    with pytest.raises(FileNotFoundError, match=r"^archive: gone: expected the model\.tar\.gz"):
        elmo_mix("gone")
    with pytest.raises(InputError, match=r"no: expected weights, weights\.th or best\.th"):
        (tmp_path / "no").mkdir()
        elmo_mix(tmp_path / "no")
    gap = {f"{MIX}.gamma": torch.ones(1), f"{MIX}.scalar_parameters.1": torch.ones(1)}
    with pytest.raises(InputError, match=rf"gap: {MIX}: expected gamma and scalar_parameters"):
        elmo_mix(save(tmp_path / "gap", gap))
    code = save(tmp_path / "code", {"elmo.scalar_mix_0.gamma": torch.nn.Linear(1, 1)})
    with pytest.raises(InputError, match=r"code/best\.th: expected tensors and plain .*Linear"):
        elmo_mix(code)


def test_the_name_of_an_archive_in_an_error(tmp_path, monkeypatch):
    """By definition: the message has the name once, at its beginning."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").write_text("no archive")
    with pytest.raises(
        InputError, match=r"^(\./)?m: expected a model\.tar\.gz, found another kind"
    ):
        elmo_mix("./m")
