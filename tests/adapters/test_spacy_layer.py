"""The layer with spaCy's own `tagger` and `ner`, and its config in `fixtures/`."""

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import spacy
from spacy.cli.convert import convert
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example

import elmo_plugin_spacy  # noqa: F401
from elmo_plugin import Elmo
from elmo_plugin.adapters.spacy_component import ElmoComponent, tok2vec_layer
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.conftest import ROOT, BiLMFiles, python

DATA = ROOT / "fixtures" / "spacy"
CONFIG = DATA / "elmo.cfg"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sentences in spaCy's format, one in a document."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("train", "dev"):
        options = {"file_type": "spacy", "converter": "conll", "n_sents": 1, "silent": True}
        convert(DATA / f"{name}.conll", folder, **options)
    return folder


def trained(data: Path, out: Path, **overrides: object) -> spacy.Language:
    """The pipeline that spaCy trains with the config."""
    paths = {f"paths.{name}": str(data / f"{name}.spacy") for name in ("train", "dev")}
    others = {name.replace("__", "."): value for name, value in overrides.items()}
    train(CONFIG, out, overrides={**paths, **others})
    return spacy.load(out / "model-last")


def dev_scores(nlp: spacy.Language, data: Path) -> tuple[float, float]:
    """spaCy's own accuracy of tags and F1 of entities on sentences with other names."""
    docs = DocBin().from_disk(data / "dev.spacy").get_docs(nlp.vocab)
    found = nlp.evaluate([Example(Doc(nlp.vocab, [t.text for t in doc]), doc) for doc in docs])
    return found["tag_acc"], found["ents_f"]


PREDICT = """
import sys, spacy, elmo_plugin_spacy
nlp = spacy.load(sys.argv[1])
doc = nlp(sys.argv[2])
print([(token.text, token.tag_, token.ent_iob_, token.ent_type_) for token in doc])
"""


def test_trained_and_loaded_in_another_process(data: Path, tmp_path: Path) -> None:
    """The sentences are invented, and none of their 36 names in dev.conll is in train.conll. A
    new process, which has only the folder, makes equal predictions; the biLM comes from the folder,
    because the config there names a file that does not exist."""
    nlp = trained(data, tmp_path / "out", training__seed=0)
    accuracy, f1 = dev_scores(nlp, data)
    assert accuracy > 0.9 and f1 > 0.7

    text = "Susan Clark flew from Moscow to Harvard University."
    expected = [(t.text, t.tag_, t.ent_iob_, t.ent_type_) for t in nlp(text)]
    assert ("Moscow", "PROPN", "B", "LOC") in expected
    folder = tmp_path / "out" / "model-last"
    config = (folder / "config.cfg").read_text()
    assert 'model = "small"' in config
    (folder / "config.cfg").write_text(config.replace('model = "small"', 'model = "/gone"'))
    assert python("-W", "ignore", "-c", PREDICT, folder, text).stdout == f"{expected}\n"


def random_vectors(seed: int) -> Callable[..., list[np.ndarray]]:
    """A function instead of `ElmoComponent.vectors`, which gives each word a random vector with
    the mean and the standard deviation of ELMo's."""
    elmo = Elmo.from_pretrained("small")
    sentences = [line.split() for line in (ROOT / "fixtures/text/heldout.txt").open() if line]
    numbers = np.concatenate([x.ravel() for x in elmo.embed(sentences[:50], "average")])
    mean, std = numbers.mean(), numbers.std()

    def vectors(_: ElmoComponent, docs: list[Doc]) -> list[np.ndarray]:
        return [np.stack([vector(token.text) for token in doc]) for doc in docs]

    def vector(word: str) -> np.ndarray:
        random = np.random.default_rng([seed, crc32(word.encode())])
        return random.normal(mean, std, elmo.output_dim).astype("float32")

    return vectors


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_better_than_random_vectors(data, tmp_path, monkeypatch, seed):
    """Both are trained by the same config and scored by spaCy; only the vectors differ."""
    elmo = dev_scores(trained(data, tmp_path / "elmo", training__seed=seed), data)
    monkeypatch.setattr(ElmoComponent, "vectors", random_vectors(seed))
    random = dev_scores(trained(data, tmp_path / "random", training__seed=seed), data)
    print(f"seed {seed}: accuracy and F1 {elmo} with ELMo, {random} with random vectors")
    assert elmo[0] > random[0] + 0.2 and elmo[1] > random[1] + 0.5


@pytest.mark.parametrize("layer", ["average", 0])
def test_the_layer(bilm_files: BiLMFiles, layer: str | int) -> None:
    """Its vectors are those of `Elmo.embed` for each document, also an empty one. It has no
    parameters and no gradient, and what its bytes are read into has the same vectors, bit for
    bit, without the original model."""
    folder = Path(bilm_files.options_file).parent
    make = spacy.registry.architectures.get("elmo_plugin.ElmoTok2Vec.v1")
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(x) for x in ("A dog ran .", "", "The ferry leaves at seven .")]
    made = make(model=str(folder), layer=layer)
    made.initialize(X=docs)
    found, backprop = made.begin_update(docs)
    elmo = Elmo.from_archive(folder)
    for doc, vectors in zip(docs, found, strict=True):
        expected = elmo.embed([[token.text for token in doc]], layer)[0]
        assert_close(vectors, expected, what=doc.text, atol=1e-5)
    assert made.get_dim("nO") == elmo.output_dim and not made.param_names
    assert backprop(found) == []
    made.finish_update(None)

    loaded = tok2vec_layer(ElmoComponent("/gone", layer)).from_bytes(made.to_bytes())
    assert loaded.get_dim("nO") == elmo.output_dim
    for vectors, others in zip(found, loaded.predict(docs), strict=True):
        assert np.array_equal(vectors, others)
    with pytest.raises(InputError, match="layer: expected one that has a single vector"):
        make(model=str(folder), layer="all")
