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
from tests.conftest import BLOCKS, BiLMFiles, Fuzz, write_bilm_archive, write_bilm_files
from tests.damage import damage
from tests.formats.tasks import load, model_of, params, train


def config_of(files: BiLMFiles) -> dict[str, Any]:
    return model_of(elmo=files._asdict())


CHARACTERS = batch_to_ids([["He", "threw"]])


def vocabulary_of(run: Path) -> Vocabulary:
    return Vocabulary.from_files(str(run / "vocabulary"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("happens", ["nothing", "gone", "another", "another size"])
@pytest.mark.parametrize("write", [write_bilm_files, write_bilm_archive])
def test_the_archive_is_complete(tmp_path, write, happens, requires_grad):
    """The output is bit-identical with that of the model before it was saved, regardless of the
    files."""
    source = write(tmp_path / "bilm")
    files = {"archive_file": source} if isinstance(source, str) else source._asdict()
    words = {"vocab_to_cache": ["", "the", "dog"]}
    config = model_of(elmo={**files, **words, "requires_grad": requires_grad})
    model = train(config, tmp_path / "run")
    numbers = torch.tensor([[1, 2]])
    expected = model.embedder(CHARACTERS), model.embedder(CHARACTERS, numbers)
    if happens != "nothing":
        shutil.rmtree(tmp_path / "bilm")
    if happens == "another":
        write(tmp_path / "bilm", seed=1)
    elif happens == "another size":
        write_bilm_archive(tmp_path / "bilm", projection_dim=4)
    shutil.move(tmp_path / "run", tmp_path / "moved")
    loaded = load(config, tmp_path / "moved")
    assert torch.equal(loaded.embedder(CHARACTERS), expected[0])
    assert torch.equal(loaded.embedder(CHARACTERS, numbers), expected[1])


def test_two_bilms_in_one_model(tmp_path):
    """Each embedder has its own numbers. The two differ in their weights."""
    one, two = (write_bilm_files(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    config = model_of(a=one._asdict(), b=two._asdict())
    model = train(config, tmp_path / "run")
    for seed in "01":
        shutil.rmtree(tmp_path / seed)
    loaded = load(config, tmp_path / "run")
    vectors = [loaded.embedder(CHARACTERS, name=name) for name in "ab"]
    for name, found in zip("ab", vectors):
        assert torch.equal(found, model.embedder(CHARACTERS, name=name))
    assert not torch.equal(*vectors)


def test_training_needs_the_files(tmp_path):
    """Even if the vocabulary has the biLM's sizes, and in a run that is recovered."""
    config, run = config_of(write_bilm_files(tmp_path / "bilm")), tmp_path / "run"
    train(config, run)
    shutil.rmtree(tmp_path / "bilm")
    (tmp_path / "new").mkdir()
    for folder in ("new", "run"):
        with pytest.raises((InputError, FileNotFoundError), match=r"options\.json"):
            train_again(config, tmp_path / folder, vocabulary_of(run))


def train_again(config: dict[str, Any], folder: Path, vocab: Vocabulary) -> torch.Tensor:
    """Begin or recover a run with a vocabulary, save it, and return its vectors."""
    folder.mkdir(exist_ok=True)
    model = Model.from_params(params(config), vocab=vocab, serialization_dir=str(folder)).eval()
    vocab.save_to_files(str(folder / "vocabulary"))
    torch.save(model.state_dict(), folder / "best.th")
    return model.embedder(CHARACTERS)


@pytest.mark.parametrize("other", ["bilm", "other"])
def test_a_recovered_run_with_the_vocabulary_of_another(tmp_path, other):
    """The vocabulary has the options of the other run's biLM, which may be the same, and there is
    no checkpoint. The expected vectors are those of this run before it was recovered."""
    configs = {x: config_of(write_bilm_files(tmp_path / x, seed=len(x))) for x in ("bilm", "other")}
    train(configs[other], tmp_path / "other_run")
    one, again = (
        train_again(configs["bilm"], tmp_path / "run", vocabulary_of(tmp_path / "other_run"))
        for _ in range(2)
    )
    assert torch.equal(one, again)


def write_changed(folder: Path, key: str, value: float) -> BiLMFiles:
    """Write the files of another biLM, of the same seed, instead of the existing ones."""
    files = write_bilm_files(folder)
    lstm = {**BLOCKS["lstm"], key: value}
    bilm = BiLM(BiLMOptions.from_dict({**BLOCKS, "lstm": lstm}, source="test"))
    if key != "projection_dim":
        bilm.load_state_dict(find_bilm(*files).bilm.state_dict())
    write_options(bilm.options, files.options_file)
    write_weights(bilm, files.weight_file)
    return files


@pytest.mark.parametrize("changed", [("cell_clip", 0.01), ("projection_dim", 12)])
def test_a_vocabulary_that_is_used_again_has_the_newest_options(tmp_path, changed):
    """The files of A are replaced by those of B at the same path, and then by A again, and each run
    begins with the vocabulary of the run before. The expected output is that of each model before
    it was saved."""
    vocab, vectors = Vocabulary(), []
    for number, change in enumerate([("cell_clip", 3.0), changed, ("cell_clip", 3.0)]):
        config = config_of(write_changed(tmp_path / "bilm", *change))
        folder = tmp_path / str(number)
        vectors.append(train_again(config, folder, vocab))
        vocab = vocabulary_of(folder)
        assert torch.equal(load(config, folder).embedder(CHARACTERS), vectors[-1])
    assert vectors[0].shape != vectors[1].shape or not torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])


def test_options_are_stored_once():
    """The options are stored once, however often a run begins with the same biLM. They have a
    namespace of their own, and the sizes of the others are those without them."""
    options = BiLMOptions.from_dict(BLOCKS, source="test")
    vocab = Vocabulary()
    for _ in range(3):
        put_options_in_vocabulary(vocab, "a", options)
    entries = vocab.get_token_to_index_vocabulary("elmo_options")
    assert sum(entry.startswith("{") for entry in entries) == 1
    assert vocab.get_vocab_size("tokens") == Vocabulary().get_vocab_size("tokens")


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
    model = train(config_of(write_bilm_files(tmp_path / "bilm")), tmp_path / "run")
    other = BiLMFiles("moved/options.json", "moved/weights.hdf5")
    loaded = load(config_of(other), tmp_path / "run")
    assert torch.equal(loaded.embedder(CHARACTERS), model.embedder(CHARACTERS))
    assert "moved/options.json moved/weights.hdf5: the model was saved with another" in caplog.text


@pytest.mark.parametrize("name", ["best.th", "weights.th"])
def test_damaged_weights_are_noticed(tmp_path, name, fuzz: Fuzz):
    """Damage gives an error that names the file, or the numbers of the model that was saved."""
    config, run = config_of(write_bilm_files(tmp_path / "bilm")), tmp_path / "run"
    expected = train(config, run).embedder(CHARACTERS)
    file = (run / "best.th").rename(run / name)
    data = file.read_bytes()
    for random in fuzz.cases(40):
        description, damaged = damage(data, random)
        file.write_bytes(damaged)
        loading = Params({"model": params(config)})
        try:
            loaded = Model.load(loading, serialization_dir=str(run), weights_file=str(file))
        except InputError as error:
            assert str(file) in str(error), description
        else:
            assert torch.equal(loaded.eval().embedder(CHARACTERS), expected), description
