import shutil
import tomllib
from importlib.metadata import EntryPoints
from pathlib import Path

import numpy
import pytest
import torch
from allennlp.common.file_utils import cached_path
from allennlp.modules import lstm_cell_with_projection
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.predictors import Predictor

from elmo_plugin import Elmo, pretrained
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.texts import read_vocabulary_file
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from elmo_plugin.plugin.models.archives import PretrainedArchiveClient
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from tests.conftest import ROOT, write_bilm_files, write_file
from tests.formats.tasks import load, model_of, train

CHARACTERS = batch_to_ids([["The", "dog", "."], ["A"]])


@pytest.fixture
def random_model(tmp_path, monkeypatch):
    """A folder of models with one in it, `random`, and something else. No distribution of ours is
    installed."""
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    installed = pretrained.entry_points

    def others(**group):
        return EntryPoints(x for x in installed(**group) if x.name not in pretrained.DISTRIBUTIONS)

    monkeypatch.setattr(pretrained, "entry_points", others)
    (tmp_path / "__pycache__").mkdir()
    return write_bilm_files(tmp_path / "random")


def test_an_unknown_name(random_model):
    """The message lists the names that there are. tests/formats/test_find.py has other ways to name
    a model."""
    with pytest.raises(FileNotFoundError, match=r"pretrained://large: .*one of: random; found"):
        cached_path("pretrained://large")


def test_a_model_that_is_not_installed(random_model):
    """The message has what pip installs: the distribution of models/medium/pyproject.toml, for
    those who have its wheel, and the folder, for those who have a clone."""
    name = tomllib.loads((ROOT / "models/medium/pyproject.toml").read_text())["project"]["name"]
    message = rf"not installed: pip install its wheel, {name}, or \./models/medium in a clone"
    for name in ("medium", "pretrained://medium"):
        with pytest.raises(InputError, match=message):
            Elmo.from_pretrained(name)


def test_an_archive_is_complete(random_model, tmp_path, monkeypatch):
    """Expected values: the vectors of the archived model, although no such model is installed."""
    model = model_of(elmo={"pretrained": "random"})
    trained = train(model, tmp_path / "run").eval()
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "random")
    loaded = load(model, tmp_path / "run")
    assert torch.equal(loaded.embedder(CHARACTERS), trained.embedder(CHARACTERS))


@pytest.mark.parametrize("name", pretrained_names())
def test_an_installed_model(name, monkeypatch):
    """Expected values: AllenNLP's stock `Elmo`, which starts from zeros, without the initial
    weights that those of the file replace, and that take long to draw. The model has a model card,
    and its vectors differ little if the state before the sentence is another."""
    monkeypatch.setattr(lstm_cell_with_projection, "block_orthogonal", lambda *_: None)
    files = pretrained_files(name)
    assert Path(files.options_file).with_name("README.md").is_file()
    stock = StockElmo(files.options_file, files.weight_file, 1)._elmo_lstm.eval()
    elmo = Elmo.from_pretrained(name, initial_state="zero")
    sentence = "He threw the stick to the dog ."
    with torch.no_grad():
        expected = torch.stack(stock(batch_to_ids([sentence.split()]))["activations"])[:, 0, 1:-1]
    found = elmo.embed(sentence, layer="all")
    numpy.testing.assert_allclose(found, expected.numpy(), atol=1e-5, rtol=0)
    for initial_state in ("warm", "carry"):
        other = Elmo.from_pretrained(name, initial_state=initial_state).embed(sentence, layer="all")
        cosines = (other * found).sum(-1) / numpy.linalg.norm(other, axis=-1)
        assert (cosines / numpy.linalg.norm(found, axis=-1)).mean() > 0.9


def test_a_model_as_an_archive():
    """Expected values: the weights of the model by its name and the words of its vocabulary file.
    Its softmax belongs to these words, because English is less surprising in its own order than in
    reverse, and both are less surprising than words drawn at random."""
    predictor = Predictor.from_path("pretrained://tiny", import_plugins=False)
    model = predictor._model
    elmo = Elmo.from_pretrained("tiny")
    for ours, its in zip(elmo.bilm.parameters(), model.bilm.parameters(), strict=True):
        assert torch.equal(ours, its)
    words = read_vocabulary_file(pretrained_files("tiny").vocabulary_file)
    assert vocabulary_words(model.vocab) == words
    sentence = "It was the best of times , it was the worst of times .".split()
    forward, reverse = (
        predictor.predict_json({"sentence": " ".join(tokens)})["perplexity"]
        for tokens in (sentence, sentence[::-1])
    )
    assert forward < reverse < len(words)


def test_the_archive_is_made_again_when_the_model_changes(random_model, tmp_path):
    """Expected: another tag for the cache after another model was installed, and only then."""
    shutil.copy(random_model.options_file, tmp_path / "random" / "vocabulary.txt")
    tags = [PretrainedArchiveClient("pretrained://random").get_etag() for _ in range(2)]
    write_bilm_files(tmp_path / "random", seed=1)
    tags.append(PretrainedArchiveClient("pretrained://random").get_etag())
    assert tags[0] == tags[1] != tags[2]


def install_model(site: Path, name: str, package: str, distribution: str = "") -> Path:
    """The metadata of an installed distribution with a model. Returns the folder of its package."""
    info = site / f"{distribution or package}-1.dist-info"
    write_file(info / "METADATA", f"Name: {distribution or package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[elmo_plugin.models]\n{name} = {package}\n")
    return site / package


def test_a_model_of_another_distribution(random_model, tmp_path, monkeypatch):
    """Expected values: the vectors of the same files by their paths. The package is not imported,
    because importing this one raises."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    folder = install_model(tmp_path / "site", "welsh", "welsh_elmo")
    files = write_bilm_files(folder, seed=1)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    assert pretrained_names() == ["random", "welsh"]
    assert pretrained_files("welsh")[:2] == files
    expected = Elmo.from_files(*files).embed("The dog")
    assert numpy.array_equal(Elmo.from_pretrained("welsh").embed("The dog"), expected)
    tuned = Elmo.from_files(*files)
    with torch.no_grad():
        tuned.mixes[0].gamma.fill_(2)
    tuned.save(folder)
    vectors = tuned.embed("The dog")
    assert not numpy.array_equal(vectors, expected)
    for make in (Elmo.from_pretrained, Elmo.from_archive):
        assert numpy.array_equal(make("welsh").embed("The dog"), vectors)
    with pytest.raises(InputError, match="one of: random, welsh; found 'large'"):
        Elmo.from_pretrained("large")


def test_distributions_that_give_no_model(random_model, tmp_path, monkeypatch):
    """A name that two models have, and one without a package, are errors where they are used, and
    the other models can be used."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    install_model(tmp_path / "site", "random", "one_elmo").mkdir()
    install_model(tmp_path / "site", "gone", "gone_elmo", distribution="gone-models")
    install_model(tmp_path / "site", "two", "one_elmo", distribution="two-models")
    assert pretrained_names() == ["gone", "random", "two"]
    with pytest.raises(InputError, match=r"'random', found .*/random and .*/one_elmo$"):
        pretrained_files("random")
    with pytest.raises(InputError, match=r"the package gone_elmo, .* of gone-models, found none"):
        pretrained_files("gone")
    assert pretrained_files("two").options_file == str(tmp_path / "site/one_elmo/options.json")
