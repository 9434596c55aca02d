"""The component with spaCy itself."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

import elmo_plugin_spacy  # noqa: F401
from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.conftest import BiLMFiles

BOTH = "He threw the stick to the dog. The ferry leaves at seven."
SENTENCES = ["He threw the stick to the dog .", "The ferry leaves at seven ."]


@pytest.fixture(scope="module")
def folder(bilm_files: BiLMFiles) -> Path:
    return Path(bilm_files.options_file).parent


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Elmo:
    return Elmo.from_archive(folder)


def pipeline(folder: Path, sentencizer: bool = True, **config: object) -> spacy.Language:
    nlp = spacy.blank("en")
    if sentencizer:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(folder), **config})
    return nlp


@pytest.mark.parametrize("layer", ["average", "top", 0])
@pytest.mark.parametrize("sentencizer", [True, False])
def test_the_vectors(folder: Path, elmo: Elmo, sentencizer: bool, layer: str | int) -> None:
    """Each sentence of a document has the vectors that it has alone, also among other documents and
    empty ones, whatever the batch. Without boundaries, a document is one sentence. Vectors of spans
    and documents are means by NumPy."""
    nlp = pipeline(folder, sentencizer, layer=layer)
    parts = SENTENCES if sentencizer else [" ".join(SENTENCES)]
    expected = np.concatenate([elmo.embed(part, layer) for part in parts])
    for batch_size in (1, 2, 1000):
        first, empty, doc = nlp.pipe([SENTENCES[1], "", BOTH], batch_size=batch_size)
        assert_close(doc.tensor, expected, what="tensor", atol=1e-5)
        assert_close(doc[3].vector, expected[3], what="token", atol=1e-5)
        assert_close(doc[2:4].vector, expected[2:4].mean(axis=0), what="span", atol=1e-5)
        assert_close(doc.vector, expected.mean(axis=0), what="doc", atol=1e-5)
        assert_close(first.tensor, elmo.embed(SENTENCES[1], layer), what="first", atol=1e-5)
        assert empty.tensor.shape == (0, elmo.output_dim) and not empty.vector.any()
        assert doc.has_vector and doc[3].has_vector and not empty.has_vector


def test_white_space(folder: Path, elmo: Elmo) -> None:
    """Tokens of white space have zeros and do not count. Merged tokens, as by spaCy's
    merge_entities, contain spaces, which a biLM reads as underscores."""
    nlp = pipeline(folder)
    expected = np.concatenate([elmo.embed(sentence, "average") for sentence in SENTENCES])
    spaced = nlp("  " + BOTH.replace(" the ", "   the "))
    words = [token.i for token in spaced if not token.is_space]
    assert len(words) < len(spaced)
    assert_close(spaced.tensor[words], expected, what="words", atol=1e-5)
    assert_close(spaced.vector, expected.mean(axis=0), what="doc", atol=1e-5)
    assert not spaced[0].vector.any() and not spaced[0:1].vector.any()

    doc = nlp.make_doc("the New York ferry")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
    expected = elmo.embed("the New_York ferry", "average")
    assert_close(nlp(doc).tensor, expected, what="merged", atol=1e-5)


def test_a_saved_pipeline(folder: Path, tmp_path: Path) -> None:
    """It is saved with its model, also before the first document, so that the original may go; its
    vectors are the same, bit for bit. The state of `warm_up` is saved too."""
    shutil.copytree(folder, tmp_path / "model")
    nlp = pipeline(tmp_path / "model", layer="top")
    plain = nlp(BOTH).tensor
    nlp.get_pipe("elmo").elmo.warm_up([sentence.split() for sentence in SENTENCES])
    expected = nlp(BOTH).tensor
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    found = spacy.load(tmp_path / "pipeline")(BOTH).tensor
    assert np.array_equal(found, expected) and not np.allclose(found, plain)


def test_a_stored_document(folder: Path) -> None:
    """A document keeps its vectors in spaCy's own bytes, as `tensor`."""
    doc = pipeline(folder)(BOTH)
    with pytest.warns(UserWarning, match="user hooks"):
        found = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert np.array_equal(found.tensor, doc.tensor)


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="layer: expected one that has a single vector"):
        pipeline(folder, layer="all")
    with pytest.raises(FileNotFoundError, match="nothing"):
        pipeline(tmp_path / "nothing")(BOTH)
