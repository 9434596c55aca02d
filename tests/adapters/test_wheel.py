"""The wheel with each library, where neither the repository nor AllenNLP is: what one process saves
gives the same vectors in another."""

from pathlib import Path

import pytest

from tests.adapters.environment import environment
from tests.conftest import without
from tests.test_packaging import copy_repository, make_wheel, run_alone

WITHOUT_THE_LIBRARIES = (
    without("spacy", "sklearn", "flair")
    + """
import importlib, pkgutil
from elmo_plugin import adapters
for module in pkgutil.iter_modules(adapters.__path__, "elmo_plugin.adapters."):
    importlib.import_module(module.name)
from elmo_plugin.adapters import flair_embeddings, sklearn_transformer
for kind in (flair_embeddings.ElmoEmbeddings, sklearn_transformer.ElmoVectors):
    try:
        kind()
    except ImportError as error:
        print(error)
"""
)

SAVE_AND_LOAD = {
    "spaCy, scikit-learn, AllenNLP 0.9": (
        """
import io, pickle, sys, numpy, spacy
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
nlp = spacy.blank("en")
assert "elmo_plugin" not in sys.modules
nlp.add_pipe("elmo", config={"model": "small"})
numpy.save("doc.npy", nlp("He threw the stick. It ran.").tensor)
nlp.to_disk("pipeline")
assert spacy.registry.has("architectures", "elmo_plugin.ElmoTok2Vec.v1")

from elmo_plugin import ElmoEmbedder
ElmoEmbedder().embed_file(io.StringIO("A dog ran .\\nIt"), "vectors.h5", batch_size=1)

from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
texts = ["a fine film", "a dull film", "fine acting", "dull acting"]
classifier = make_pipeline(ElmoVectors(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
assert list(classifier.predict(texts)) == [1, 0, 1, 0]
with open("classifier.pickle", "wb") as file:
    pickle.dump((classifier, texts, classifier.predict_proba(texts)), file)
""",
        """
import pickle, h5py, numpy, spacy
found = spacy.load("pipeline")("He threw the stick. It ran.").tensor
assert found.shape == (8, 256) and (found == numpy.load("doc.npy")).all()

from elmo_plugin import ElmoEmbedder
embedder = ElmoEmbedder("pretrained://small")
with h5py.File("vectors.h5") as file:
    for number, sentence in enumerate((["A", "dog", "ran", "."], ["It"])):
        assert (file[str(number)][()] == embedder.embed_sentence(sentence)).all()

with open("classifier.pickle", "rb") as file:
    classifier, texts, probabilities = pickle.load(file)
assert (classifier.predict_proba(texts) == probabilities).all()
""",
    ),
    "flair": (
        """
import numpy
from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import StackedEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from elmo_plugin import Elmo
from elmo_plugin.adapters.flair_embeddings import ElmoEmbeddings
from elmo_plugin.checks import InputError

trained = Elmo.from_pretrained("tiny", requires_grad=True)
try:
    ElmoEmbeddings(trained.bilm)  # would freeze it
    raise AssertionError("a biLM that is fine-tuned was frozen")
except InputError:
    assert all(x.requires_grad for x in trained.bilm.parameters())

made = ElmoEmbeddings("tiny", "top", device="cpu", precision="bf16", initial_state="zero")
again = ElmoEmbeddings.from_params(made.to_params())
again.load_state_dict(made.state_dict())
assert (again.elmo.initial_state, again.elmo.bilm.permitted_precision) == ("zero", "bf16")

plain = ElmoEmbeddings("tiny"), ElmoEmbeddings("tiny", initial_state="zero")
plain[0].embed(same := Sentence("a dog ran"))
plain[1].embed(same)  # of the same model, so that it must not take what is there
expected = Elmo.from_pretrained("tiny", initial_state="zero").embed(["a", "dog", "ran"], "average")
found = numpy.stack([t.get_embedding([plain[1].name]).cpu().numpy() for t in same])
assert numpy.abs(found - expected).max() < 1e-5

data = [Sentence(words.split()) for words in ("a dog ran", "the cat sat")] * 4
for sentence in data:
    for token, tag in zip(sentence, "DNV"):
        token.add_label("pos", tag)
corpus = Corpus(*map(FlairDatapointDataset, (data, data, data)))
tags = corpus.make_label_dictionary("pos", add_unk=False)
mixed = Elmo.from_pretrained("tiny", initial_state="carry")
mixed.scalar_mix_0.gamma.data.fill_(2.0)
mixed.save("mixed")
kinds = ElmoEmbeddings("mixed", layer="mix"), ElmoEmbeddings("small", layer="all"), again
embeddings = StackedEmbeddings([*kinds])
tagger = SequenceTagger(embeddings, tags, "pos", hidden_size=16)
ModelTrainer(tagger, corpus).train("run", max_epochs=2, train_with_dev=False)
words = ["A", "dog", "ran", "to", "New York", "."]
sentence = Sentence(words)
embeddings.embed(sentence)
words[4] = "New_York"
found = numpy.stack([token.embedding.cpu().numpy() for token in sentence])
zero = Elmo.from_pretrained("tiny", initial_state="zero", precision="bf16").embed(words, "top")
layers = Elmo.from_pretrained("small").embed(words, "all").transpose(1, 0, 2).reshape(6, -1)
expected = [2 * Elmo.from_pretrained("tiny").embed(words), layers, zero]
assert numpy.abs(found - numpy.concatenate(expected, axis=1)).max() < 1e-5
numpy.save("vectors.npy", found)
tagger.eval().predict(fresh := Sentence(words))
numpy.save("tags.npy", [token.get_label("pos").score for token in fresh])
tagger.save("tagger.pt")
""",
        """
import numpy
import elmo_plugin.adapters.flair_embeddings
from flair.data import Sentence
from flair.models import SequenceTagger
tagger = SequenceTagger.load("tagger.pt")
words = ["A", "dog", "ran", "to", "New_York", "."]
tagger.embeddings.embed(sentence := Sentence(words))
found = numpy.stack([token.embedding.cpu().numpy() for token in sentence])
assert (found == numpy.load("vectors.npy")).all()
tagger.predict(fresh := Sentence(words))
assert ([token.get_label("pos").score for token in fresh] == numpy.load("tags.npy")).all()
""",
    ),
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of a copy of the repository."""
    try:
        found = environment()
    except RuntimeError as error:
        pytest.skip(f"the environment of the adapters' libraries cannot be made: {error}")
    folder = tmp_path_factory.mktemp("wheel")
    copy_repository(folder / "source")
    wheel = make_wheel(folder / "source", folder / "dist")
    assert wheel.name.endswith("py3-none-any.whl")
    install = [found, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel]
    run_alone(*install, folder=folder)
    return found


@pytest.mark.long
@pytest.mark.parametrize("library", SAVE_AND_LOAD)
def test_saved_and_loaded(python: Path, tmp_path: Path, library: str) -> None:
    """Both programs check their vectors: those of `Elmo.embed`, or of the first program."""
    for program in SAVE_AND_LOAD[library]:
        run_alone(python, "-W", "ignore", "-c", program, folder=tmp_path)


@pytest.mark.long
def test_without_the_library(python: Path, tmp_path: Path) -> None:
    """Each module is imported without its library, which the error names."""
    found = run_alone(python, "-c", WITHOUT_THE_LIBRARIES, folder=tmp_path).stdout.splitlines()
    for line, library in zip(found, ("flair", "scikit-learn"), strict=True):
        assert line.endswith(f"needs {library}, which is not installed: pip install {library}")
