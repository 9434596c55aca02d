"""What becomes of a task model's archive when the biLM's own files change, move or disappear."""

import shutil
from copy import deepcopy

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.token_embedders import TokenEmbedder
from torch import nn

from tests.conftest import write_bilm_files


class _Task(Model):
    """As little as a model can be that has a token embedder."""

    def __init__(self, vocab: Vocabulary, embedder: TokenEmbedder, **kwargs) -> None:
        super().__init__(vocab, **kwargs)
        self.embedder = embedder
        self.linear = nn.Linear(embedder.get_output_dim(), 1)


@pytest.fixture(autouse=True)
def _registered():
    Model.register("elmo_task", exist_ok=True)(_Task)


def train(config, folder) -> Model:
    """What `allennlp train` does around a model, in its order."""
    vocab = Vocabulary()
    model = Model.from_params(params(config), vocab=vocab, serialization_dir=str(folder))
    vocab.save_to_files(str(folder / "vocabulary"))
    torch.save(model.state_dict(), folder / "best.th")
    return model.eval()


def load(config, folder) -> Model:
    return Model.load(Params({"model": params(config)}), serialization_dir=str(folder)).eval()


def config_of(files, **kwargs) -> dict:
    embedder = {"type": "elmo", **files._asdict(), **kwargs}
    return {"type": "elmo_task", "embedder": embedder}


def params(config) -> Params:
    """AllenNLP takes out of it what it has read."""
    return Params(deepcopy(config))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("happens", ["nothing", "gone", "another"])
def test_the_archive_is_complete(tmp_path, happens, requires_grad):
    """Expected: to the bit what the model said when it was saved, whatever became of the files."""
    files = write_bilm_files(tmp_path / "bilm")
    config = config_of(files, requires_grad=requires_grad, vocab_to_cache=["", "the", "dog"])
    (tmp_path / "run").mkdir()
    model = train(config, tmp_path / "run")
    characters = batch_to_ids([["He", "threw"], ["dog"]])
    numbers = torch.tensor([[1, 2]])
    expected = model.embedder(characters), model.embedder(characters[:1], numbers)
    if happens != "nothing":
        shutil.rmtree(tmp_path / "bilm")
    if happens == "another":
        write_bilm_files(tmp_path / "bilm", seed=1)
    shutil.move(tmp_path / "run", tmp_path / "moved")
    loaded = load(config, tmp_path / "moved")
    assert torch.equal(loaded.embedder(characters), expected[0])
    assert torch.equal(loaded.embedder(characters[:1], numbers), expected[1])


def test_two_bilms_in_one_model(tmp_path):
    """Expected: each embedder's own numbers; the two differ in their weights and in a size."""
    one, two = write_bilm_files(tmp_path / "1"), write_bilm_files(tmp_path / "2", seed=1)
    embedders = {key: {"type": "elmo", **f._asdict()} for key, f in (("a", one), ("b", two))}

    class _Two(Model):
        def __init__(self, vocab: Vocabulary, a: TokenEmbedder, b: TokenEmbedder, **kwargs):
            super().__init__(vocab, **kwargs)
            self.a, self.b = a, b

    Model.register("elmo_two", exist_ok=True)(_Two)
    config = {"type": "elmo_two", **embedders}
    (tmp_path / "run").mkdir()
    model = train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "1")
    shutil.rmtree(tmp_path / "2")
    loaded = load(config, tmp_path / "run")
    characters = batch_to_ids([["He", "threw"]])
    assert torch.equal(loaded.a(characters), model.a(characters))
    assert torch.equal(loaded.b(characters), model.b(characters))
    assert not torch.equal(loaded.a(characters), loaded.b(characters))


def test_training_with_an_old_vocabulary_wants_the_files(tmp_path):
    """A vocabulary that knows the biLM's sizes is no reason to begin with an empty one."""
    files = write_bilm_files(tmp_path / "bilm")
    (tmp_path / "run").mkdir()
    config = config_of(files)
    train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    old = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    new = tmp_path / "new"
    new.mkdir()
    with pytest.raises((ConfigurationError, FileNotFoundError), match=r"options\.json"):
        Model.from_params(params(config), vocab=old, serialization_dir=str(new))


def test_an_empty_bilm_refuses_to_read(tmp_path):
    """A run that is recovered, whose checkpoint then does not come."""
    files = write_bilm_files(tmp_path / "bilm")
    (tmp_path / "run").mkdir()
    config = config_of(files)
    train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    vocab = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    run = str(tmp_path / "run")
    model = Model.from_params(params(config), vocab=vocab, serialization_dir=run)
    with pytest.raises(RuntimeError, match="weights never came"):
        model.embedder(batch_to_ids([["He"]]))


def test_the_vocabulary_keeps_its_words(tmp_path):
    """The options have a namespace of their own; the sizes of the others are those without them."""
    files = write_bilm_files(tmp_path / "bilm")
    (tmp_path / "run").mkdir()
    train(config_of(files), tmp_path / "run")
    vocab = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    assert vocab.get_vocab_size("tokens") == Vocabulary().get_vocab_size("tokens")
