"""The mixes of a trained tagger."""

from pathlib import Path

import pytest
import torch
from allennlp.commands.train import train_model

from elmo_plugin.files.torch_file import load_torch_file
from elmo_plugin.formats.archive import read_weights
from elmo_plugin.formats.find import NEEDED
from elmo_plugin.formats.mixes import find_mixes
from elmo_plugin.formats.unpack import unpacked
from tests.plugin.tagger import config

EMBEDDER = "text_field_embedder.token_embedder_elmo._elmo"


def test_mixes_of_an_archive(bilm_archive: str, tmp_path: Path) -> None:
    """Expected: s and gamma computed from the weights of the run whose archive is read."""
    train_model(config(bilm_archive), str(tmp_path / "run"))
    state = load_torch_file(tmp_path / "run" / "best.th")
    with unpacked(tmp_path / "run" / "model.tar.gz", NEEDED) as folder:
        archived = find_mixes(read_weights(folder))
    assert list(archived) == [f"{EMBEDDER}.scalar_mix_{k}" for k in (0, 1)]
    for name, mix in archived.items():
        w = torch.cat([state[f"{name}.scalar_parameters.{j}"] for j in range(3)])
        expected = [*(w.exp() / w.exp().sum()).tolist(), float(state[f"{name}.gamma"])]
        assert [*mix.weights, mix.gamma] == pytest.approx(expected)
        assert not all(s_j == pytest.approx(1 / 3) for s_j in mix.weights)
