"""These tests use a task model's archive after the biLM's own files were changed, moved or
removed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.texts import write_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.token_embedders.options_in_vocabulary import put_options_in_vocabulary
from tests.conftest import BLOCKS, BiLMFiles, Fuzz, write_bilm_files
from tests.damage import damage
from tests.formats.tasks import load, model_of, params, train


def config_of(files: BiLMFiles, **kwargs: Any) -> dict[str, Any]:
    return model_of(elmo={**files._asdict(), **kwargs})


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("happens", ["nothing", "gone", "another"])
def test_the_archive_is_complete(tmp_path, happens, requires_grad):
    """The output is bit-identical with that of the model before it was saved, regardless of the
    files."""
    files = write_bilm_files(tmp_path / "bilm")
    config = config_of(files, requires_grad=requires_grad, vocab_to_cache=["", "the", "dog"])
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
    """Each embedder has its own numbers. The two differ in their weights."""
    one, two = write_bilm_files(tmp_path / "1"), write_bilm_files(tmp_path / "2", seed=1)
    config = model_of(a=one._asdict(), b=two._asdict())
    model = train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "1")
    shutil.rmtree(tmp_path / "2")
    loaded = load(config, tmp_path / "run")
    characters = batch_to_ids([["He", "threw"]])
    vectors = [loaded.embedder(characters, name=name) for name in "ab"]
    for name, found in zip("ab", vectors):
        assert torch.equal(found, model.embedder(characters, name=name))
    assert not torch.equal(*vectors)


def test_training_with_an_old_vocabulary_wants_the_files(tmp_path):
    """Training from scratch needs the files, even if the vocabulary has the biLM's sizes."""
    files = write_bilm_files(tmp_path / "bilm")
    config = config_of(files)
    train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    old = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    new = tmp_path / "new"
    new.mkdir()
    with pytest.raises((InputError, FileNotFoundError), match=r"options\.json"):
        Model.from_params(params(config), vocab=old, serialization_dir=str(new))


def test_a_recovered_run_with_the_vocabulary_of_another(tmp_path):
    """The vocabulary has the options of the other run's biLM, and the expected vectors are those of
    this run before it was recovered."""
    train(config_of(write_bilm_files(tmp_path / "other")), tmp_path / "other_run")
    config = config_of(write_bilm_files(tmp_path / "bilm", seed=1))
    run = tmp_path / "run"
    run.mkdir()
    vectors = []
    for _ in range(2):
        vocab = Vocabulary.from_files(str(tmp_path / "other_run" / "vocabulary"))
        model = Model.from_params(params(config), vocab=vocab, serialization_dir=str(run)).eval()
        vocab.save_to_files(str(run / "vocabulary"))
        torch.save(model.state_dict(), run / "best.th")
        vectors.append(model.embedder(batch_to_ids([["He", "threw"]])))
    assert torch.equal(*vectors)


def test_an_empty_bilm_refuses_to_read(tmp_path):
    """The run is recovered, but its checkpoint is not loaded."""
    files = write_bilm_files(tmp_path / "bilm")
    config = config_of(files)
    train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    vocab = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    run = str(tmp_path / "run")
    model = Model.from_params(params(config), vocab=vocab, serialization_dir=run)
    with pytest.raises(RuntimeError, match="weights were never loaded; call `load_state_dict`"):
        model.embedder(batch_to_ids([["He"]]))


def test_the_vocabulary_keeps_its_words(tmp_path):
    """The options have a namespace of their own, and the sizes of the others are those without
    them."""
    files = write_bilm_files(tmp_path / "bilm")
    train(config_of(files), tmp_path / "run")
    vocab = Vocabulary.from_files(str(tmp_path / "run" / "vocabulary"))
    assert vocab.get_vocab_size("tokens") == Vocabulary().get_vocab_size("tokens")


def write_changed(folder: Path, key: str, value: float) -> BiLMFiles:
    """Write the files of another biLM, of the same seed, instead of the existing ones."""
    files = write_bilm_files(folder)
    options = BiLMOptions.from_dict(
        {**BLOCKS, "lstm": {**BLOCKS["lstm"], key: value}}, source="test"
    )
    bilm = BiLM(options)
    if key != "projection_dim":
        bilm.load_state_dict(find_bilm(*files).bilm.state_dict())
    write_options(options, files.options_file)
    write_weights(bilm, files.weight_file)
    return files


@pytest.mark.parametrize("changed", [("cell_clip", 0.01), ("projection_dim", 12)])
def test_a_vocabulary_that_is_used_again_has_the_newest_options(tmp_path, changed):
    """The files of A are replaced by those of B at the same path, and then by A again, and each run
    begins with the vocabulary of the run before. The expected output is that of each model before
    it was saved."""
    vocab, vectors = Vocabulary(), []
    characters = batch_to_ids([["He", "threw", "the", "stick"]])
    for number, change in enumerate([("cell_clip", 3.0), changed, ("cell_clip", 3.0)]):
        files = write_changed(tmp_path / "bilm", *change)
        folder = tmp_path / str(number)
        folder.mkdir()
        config = config_of(files, dropout=0.0)
        model = Model.from_params(params(config), vocab=vocab, serialization_dir=str(folder))
        vocab.save_to_files(str(folder / "vocabulary"))
        torch.save(model.state_dict(), folder / "best.th")
        vocab = Vocabulary.from_files(str(folder / "vocabulary"))
        vectors.append(model.eval().embedder(characters))
        assert torch.equal(load(config, folder).embedder(characters), vectors[-1])
    assert vectors[0].shape != vectors[1].shape or not torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])


def test_options_are_stored_once():
    """The options are stored once, however often a run begins with the same biLM."""
    options = BiLMOptions.from_dict(BLOCKS, source="test")
    vocab = Vocabulary()
    for _ in range(3):
        put_options_in_vocabulary(vocab, "a", options)
    entries = vocab.get_token_to_index_vocabulary("elmo_options")
    assert sum(entry.startswith("{") for entry in entries) == 1


@pytest.mark.parametrize("entry", ["{", "{}", '{"source": [], "options": 1}'])
def test_an_entry_that_cannot_be_read_is_named(tmp_path, entry):
    """The message has the namespace and the entry."""
    config = config_of(write_bilm_files(tmp_path / "bilm"))
    train(config, tmp_path / "run")
    (tmp_path / "run" / "vocabulary" / "elmo_options.txt").write_text(f"@@UNKNOWN@@\n{entry}\n")
    with pytest.raises(InputError, match='namespace "elmo_options": expected'):
        load(config, tmp_path / "run")


def test_a_source_overridden_on_loading(tmp_path, caplog):
    """`evaluate -o` names the path that the files may have been moved to. The expected numbers are
    those of the model that was saved, because its biLM is in the archive, and a warning says so."""
    files = write_bilm_files(tmp_path / "bilm")
    model = train(config_of(files), tmp_path / "run")
    characters = batch_to_ids([["He", "threw"]])
    other = BiLMFiles("moved/options.json", "moved/weights.hdf5")
    loaded = load(config_of(other), tmp_path / "run")
    assert torch.equal(loaded.embedder(characters), model.embedder(characters))
    assert "moved/options.json moved/weights.hdf5: the model was saved with another" in caplog.text


@pytest.mark.parametrize("name", ["best.th", "weights.th"])
def test_damaged_weights_are_noticed(tmp_path, name, fuzz: Fuzz):
    """Damage gives an error that names the file, or the numbers of the model that was saved."""
    config = config_of(write_bilm_files(tmp_path / "bilm"))
    run = tmp_path / "run"
    model = train(config, run)
    if name == "weights.th":
        (run / "best.th").rename(run / name)
    data = (run / name).read_bytes()
    characters = batch_to_ids([["He", "threw"]])
    expected = model.embedder(characters)
    for random in fuzz.cases(40):
        description, damaged = damage(data, random)
        (run / name).write_bytes(damaged)
        loading = Params({"model": params(config)})
        try:
            loaded = Model.load(loading, serialization_dir=str(run), weights_file=str(run / name))
        except InputError as error:
            assert str(run / name) in str(error), description
        else:
            assert torch.equal(loaded.eval().embedder(characters), expected), description
