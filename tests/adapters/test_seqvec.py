"""SeqVec, ELMo for proteins: a token is a residue, and a sentence a protein."""

import json
from pathlib import Path
from random import Random

import pytest
import torch

from elmo_plugin import Elmo, ElmoEmbedder
from elmo_plugin.formats.bilm_tf.texts import read_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.modules import BiLM
from tests.adapters.test_allennlp_09 import Stock
from tests.compare import assert_close
from tests.conftest import BiLMFiles

FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
SMALL = [[1, 4], [2, 4], [3, 8]]


def options(dim: int, projection_dim: int, filters: list) -> dict:
    """SeqVec's options: those of the English model, and two of its training."""
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": projection_dim,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": dim,
            "n_layers": 2,
        },
        "char_cnn": {
            "embedding": {"dim": 16},
            "filters": filters,
            "n_highway": 2,
            "activation": "relu",
            "max_characters_per_token": 50,
            "n_characters": 262,
        },
        "n_tokens_vocab": 28,
        "unroll_steps": 100,
    }


@pytest.fixture(
    params=[
        pytest.param((32, 8, SMALL), id="small"),
        pytest.param((4096, 512, FILTERS), id="SeqVec's sizes", marks=pytest.mark.long),
    ]
)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> BiLMFiles:
    """SeqVec's files with random weights. A weight file without a warm state, as the published one,
    has the one of empty sentences."""
    torch.manual_seed(0)
    (tmp_path / "options.json").write_text(json.dumps(options(*request.param)))
    write_weights(BiLM(read_options(tmp_path / "options.json")), tmp_path / "weights.hdf5")
    return BiLMFiles(str(tmp_path / "options.json"), str(tmp_path / "weights.hdf5"))


def protein(length: int) -> list[str]:
    return Random(length).choices("ACDEFGHIKLMNPQRSTVWXY", k=length)


def test_proteins_of_several_lengths(files: BiLMFiles) -> None:
    """The numbers are those of AllenNLP's biLM, which carries its state, alone and in a batch."""
    stock, ours = Stock(files), ElmoEmbedder(*files)
    whole = protein(400)
    for length in (1, 2, 37, 400):
        expected = stock([whole[:length]])[0][0]
        assert_close(ours.embed_sentence(whole[:length]), expected, what=f"{length}", atol=1e-5)
    batch = [protein(90), protein(3), protein(41)]
    expected = stock(batch)[0]
    for row, found in enumerate(ours.embed_batch(batch)):
        assert_close(found, expected[row, :, : len(batch[row])], what=f"row {row}", atol=1e-5)


def test_a_warm_state_of_proteins(files: BiLMFiles, tmp_path: Path) -> None:
    """By AllenNLP's biLM: its state after each of several proteins, whose mean is the warm state,
    and the vectors of a protein that starts from this mean, after the model was saved."""
    stock, proteins = Stock(files), [protein(length) for length in (50, 3, 120)]
    states = []
    for one in proteins:
        stock([one])
        # Of shape (L, B, 2P) and (L, B, 2D), first the forward direction.
        states.append([x.clone() for x in stock.bilm._elmo_lstm._states])
    mean = tuple(torch.stack(x).mean(dim=0) for x in zip(*states))

    elmo = Elmo.from_files(*files)
    elmo.warm_up(proteins, batch_size=1)
    elmo.save(tmp_path / "saved")
    hidden, cell = elmo.bilm.warm_state.output, elmo.bilm.warm_state.memory
    for found, expected, name in ((hidden, mean[0], "hidden"), (cell, mean[1], "cell")):
        both = found.transpose(1, 2).flatten(2)
        assert_close(both, expected, what=name, atol=1e-5)
    stock.bilm._elmo_lstm._states = mean
    expected = stock([protein(60)])[0][0]
    found = Elmo.from_archive(tmp_path / "saved").embed(protein(60), "all")
    assert_close(found, expected, what="vectors", atol=1e-5)
