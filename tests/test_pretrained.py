import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo, pretrained
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from elmo_plugin.token_embedders.elmo import ElmoEmbedder
from tests.conftest import write_bilm_files
from tests.token_embedders.test_elmo import embedder

CHARACTERS = batch_to_ids([["The", "dog", "."], ["A"]])


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of models with one in it, `small`, and something else."""
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    (tmp_path / "__pycache__").mkdir()
    return write_bilm_files(tmp_path / "small")


def test_by_name(small):
    """Expected: the same files by their paths, in Python and in a config."""
    assert pretrained_names() == ["small"]
    assert pretrained_files("small") == small
    expected = Elmo.from_files(*small, initial_state="zero").embed("The dog")
    found = Elmo.from_pretrained("small", initial_state="zero").embed("The dog")
    assert numpy.array_equal(found, expected)
    assert torch.equal(
        embedder(pretrained="small")(CHARACTERS), embedder(**small._asdict())(CHARACTERS)
    )


def test_a_name_that_there_is_not(small):
    with pytest.raises(ValueError, match="pretrained: expected one of: small; found 'large'"):
        Elmo.from_pretrained("large")
    with pytest.raises(ConfigurationError, match="expected one of: small; found 'large'"):
        embedder(pretrained="large")


def test_an_archive_is_complete(small, tmp_path, monkeypatch):
    """Expected: the vectors of the archived model, although no such model is installed."""
    vocabulary = Vocabulary()
    trained = ElmoEmbedder(pretrained="small", vocab=vocabulary).eval()
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "small")
    torch.save({}, tmp_path / "weights.th")
    where = {"vocab": vocabulary, "serialization_dir": str(tmp_path)}
    loaded = ElmoEmbedder(pretrained="small", **where).eval()
    loaded.load_state_dict(trained.state_dict())
    assert torch.equal(loaded(CHARACTERS), trained(CHARACTERS))


def test_what_comes_with_the_package():
    """Property: each installed model has a model card and can be loaded."""
    for name in pretrained_names():
        assert (pretrained.FOLDER / name / "README.md").is_file()
        elmo = Elmo.from_pretrained(name)
        assert elmo.embed("The dog").shape == (2, elmo.output_dim)
