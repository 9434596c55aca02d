"""The wheel with each library, where neither the repository nor AllenNLP is: what one process saves
gives the same vectors in another."""

from pathlib import Path

import pytest

from tests.adapters.environment import environment
from tests.test_packaging import copy_repository, make_wheel, run_alone

SAVE_AND_LOAD = {
    "AllenNLP 0.9": (
        """
import h5py, io
from elmo_plugin import ElmoEmbedder
embedder = ElmoEmbedder()
assert embedder.embed_sentence(["A", "dog", "ran", "."]).shape == (3, 4, 256)
ElmoEmbedder().embed_file(io.StringIO("A dog ran .\\nIt"), "vectors.h5", batch_size=1)
""",
        """
import h5py
from elmo_plugin import ElmoEmbedder
embedder = ElmoEmbedder("pretrained://small")
with h5py.File("vectors.h5") as file:
    for number, sentence in enumerate((["A", "dog", "ran", "."], ["It"])):
        assert (file[str(number)][()] == embedder.embed_sentence(sentence)).all()
""",
    ),
    "spaCy": (
        """
import sys, numpy, spacy
nlp = spacy.blank("en")
assert "elmo_plugin" not in sys.modules
nlp.add_pipe("sentencizer")
nlp.add_pipe("elmo", config={"model": "small"})
docs = list(nlp.pipe(["He threw the stick. It ran.", "", "A dog"], batch_size=2))
assert docs[0][2].vector.shape == docs[0].vector.shape == (256,)
numpy.savez("docs.npz", *[doc.tensor for doc in docs])
nlp.to_disk("pipeline")
assert spacy.registry.has("architectures", "elmo_plugin.ElmoTok2Vec.v1")
""",
        """
import numpy, spacy
nlp = spacy.load("pipeline")
expected = numpy.load("docs.npz")
docs = list(nlp.pipe(["He threw the stick. It ran.", "", "A dog"], batch_size=2))
assert all((doc.tensor == expected[f"arr_{k}"]).all() for k, doc in enumerate(docs))
""",
    ),
    "scikit-learn": (
        """
import numpy, pickle
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
texts = ["a fine film", "a dull film", "fine acting", "dull acting"]
classifier = make_pipeline(ElmoVectors(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
assert list(classifier.predict(texts)) == [1, 0, 1, 0]
numpy.save("probabilities.npy", classifier.predict_proba(texts))
numpy.save("vectors.npy", classifier[0].transform(texts))
with open("classifier.pickle", "wb") as file:
    pickle.dump(classifier, file)
""",
        """
import numpy, pickle
with open("classifier.pickle", "rb") as file:
    classifier = pickle.load(file)
texts = ["a fine film", "a dull film", "fine acting", "dull acting"]
assert (classifier[0].transform(texts) == numpy.load("vectors.npy")).all()
assert (classifier.predict_proba(texts) == numpy.load("probabilities.npy")).all()
""",
    ),
    "flair": (
        """
import numpy, torch
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
except InputError:
    assert all(x.requires_grad for x in trained.bilm.parameters())
else:
    raise AssertionError("a biLM that is fine-tuned was frozen")

made = ElmoEmbeddings("tiny", "top", device="cpu", precision="bf16", initial_state="zero")
made.embed(sentence := Sentence(["A", "dog", "ran"]))
same = Elmo.from_pretrained("tiny", initial_state="zero", precision="bf16")
expected = same.embed(["A", "dog", "ran"], "top")
found = numpy.stack([token.embedding.cpu().numpy() for token in sentence])
assert numpy.abs(found - expected).max() < 1e-5
again = ElmoEmbeddings.from_params(made.to_params()).elmo
assert (again.initial_state, again.bilm.permitted_precision) == ("zero", "bf16")

def tagged(words, tags):
    sentence = Sentence(words)
    for token, tag in zip(sentence, tags):
        token.add_label("pos", tag)
    return sentence

data = [tagged(["a", "dog", "ran"], "DNV"), tagged(["the", "cat", "sat", "."], "DNV.")] * 4
corpus = Corpus(*map(FlairDatapointDataset, (data, data, data)))
tags = corpus.make_label_dictionary("pos", add_unk=False)
mixed = Elmo.from_pretrained("tiny", initial_state="carry")
mixed.scalar_mix_0.gamma.data.fill_(2.0)
mixed.save("mixed")
kinds = ElmoEmbeddings("mixed", layer="mix"), ElmoEmbeddings("small", layer="all")
embeddings = StackedEmbeddings([*kinds])
assert embeddings.embedding_length == 64 + 3 * 256
tagger = SequenceTagger(embeddings, tags, "pos", hidden_size=16)
ModelTrainer(tagger, corpus).train("run", max_epochs=2, train_with_dev=False)
words = ["A", "dog", "ran", "to", "New York", "."]
sentence = Sentence(words)
embeddings.embed(sentence)
words[4] = "New_York"
expected = Elmo.from_pretrained("small").embed(words, "all").transpose(1, 0, 2).reshape(6, -1)
found = numpy.stack([token.embedding.cpu().numpy() for token in sentence])
assert numpy.abs(found[:, 64:] - expected).max() < 1e-5
expected = 2 * Elmo.from_pretrained("tiny").embed(words)
assert numpy.abs(found[:, :64] - expected).max() < 1e-5
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
    program = """
import importlib, pkgutil, sys
for name in ("spacy", "sklearn", "flair"):
    sys.modules[name] = None
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
    found = run_alone(python, "-c", program, folder=tmp_path).stdout.splitlines()
    assert found == [
        "ElmoEmbeddings needs flair, which is not installed: pip install flair",
        "ElmoVectors needs scikit-learn, which is not installed: pip install scikit-learn",
    ]
