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
    lstm = {"dim": dim, "projection_dim": projection_dim, "n_layers": 2, "cell_clip": 3}
    cnn = {"embedding": {"dim": 16}, "filters": filters, "n_highway": 2, "activation": "relu"}
    return {
        "lstm": {**lstm, "proj_clip": 3, "use_skip_connections": True},
        "char_cnn": {**cnn, "max_characters_per_token": 50, "n_characters": 262},
        "n_tokens_vocab": 28,
        "unroll_steps": 100,
    }


@pytest.fixture(
    params=[(32, 8, SMALL), pytest.param((4096, 512, FILTERS), marks=pytest.mark.long)],
    ids=["small", "SeqVec's sizes"],
)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> BiLMFiles:
    """SeqVec's files with random weights. A weight file without a warm state, as the published one,
    has the one of empty sentences."""
    torch.manual_seed(0)
    files = BiLMFiles(str(tmp_path / "options.json"), str(tmp_path / "weights.hdf5"))
    Path(files.options_file).write_text(json.dumps(options(*request.param)))
    write_weights(BiLM(read_options(files.options_file)), files.weight_file)
    return files


def protein(length: int) -> list[str]:
    return Random(length).choices("ACDEFGHIKLMNPQRSTVWXY", k=length)


def test_proteins_of_several_lengths(files: BiLMFiles) -> None:
    """The numbers are those of AllenNLP's biLM, which carries its state, alone and in a batch."""
    stock, ours = Stock(files), ElmoEmbedder(*files)
    for lengths in ([1], [37], [400], [90, 3, 41]):
        batch = [protein(length) for length in lengths]
        expected = stock(batch)[0]
        for row, found in enumerate(ours.embed_batch(batch)):
            assert_close(found, expected[row, :, : lengths[row]], what=f"row {row}", atol=1e-5)


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
