"""The component with spaCy itself."""

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

import elmo_plugin_spacy  # noqa: F401
from elmo_plugin import Elmo
from elmo_plugin.adapters.spacy_component import set_hooks
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.conftest import BiLMFiles, threads

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
    """Tokens of whitespace have zeros and do not count. Merged tokens, as by spaCy's
    merge_entities, contain spaces, which a biLM reads as underscores. By definition, what has a
    vector is what is not whitespace, whatever static vectors spaCy has."""
    nlp = pipeline(folder)
    expected = np.concatenate([elmo.embed(sentence, "average") for sentence in SENTENCES])
    spaced = nlp("  " + BOTH.replace(" the ", "   the "))
    words = [token.i for token in spaced if not token.is_space]
    assert len(words) < len(spaced)
    assert_close(spaced.tensor[words], expected, what="words", atol=1e-5)
    assert_close(spaced.vector, expected.mean(axis=0), what="doc", atol=1e-5)
    assert not spaced[0].vector.any() and not spaced[0:1].vector.any()
    nlp.vocab.set_vector("the", np.ones(4, np.float32))  # as a pipeline with static vectors has
    for part in (*spaced, spaced[0:1], spaced[1:3], spaced):
        assert part.has_vector == bool(part.text.strip())

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


def test_a_saved_model_that_carries(elmo: Elmo, folder: Path, tmp_path: Path) -> None:
    """The vectors of a document are the same however often it is read, also with a saved
    pipeline. The expected ones are those with the state warm."""
    Elmo.from_archive(folder, initial_state="carry").save(tmp_path / "carry")
    nlp = pipeline(tmp_path / "carry", layer="top")
    nlp.to_disk(tmp_path / "saved")
    expected = np.concatenate([elmo.embed(sentence, "top") for sentence in SENTENCES])
    for found in (nlp, nlp, loaded := spacy.load(tmp_path / "saved"), loaded):
        assert_close(found(BOTH).tensor, expected, what="tensor", atol=1e-5)


def test_settings(folder: Path, tmp_path: Path) -> None:
    """The expected vectors are those of `Elmo` with this start state, which they depend on. A
    pipeline that is read from disk has the settings of its config, which `spacy.load` replaces, and
    the model of its folder."""
    nlp = pipeline(folder, layer="top", initial_state="zero", precision="bf16")
    nlp.to_disk(tmp_path / "pipeline")
    changed = {"components.elmo.precision": "fp32", "components.elmo.model": "not used"}
    loaded = spacy.load(tmp_path / "pipeline", config=changed)
    found = [x.get_pipe("elmo").elmo for x in (nlp, spacy.load(tmp_path / "pipeline"), loaded)]
    assert [x.bilm.permitted_precision for x in found] == ["bf16", "bf16", "fp32"]
    zero = Elmo.from_archive(folder, initial_state="zero")
    expected = np.concatenate([zero.embed(sentence, "top") for sentence in SENTENCES])
    assert_close(loaded(BOTH).tensor, expected, what="tensor", atol=1e-5)
    assert not np.allclose(pipeline(folder, layer="top")(BOTH).tensor, expected, atol=1e-5)


def test_similarity(folder: Path, elmo: Elmo) -> None:
    """It is NumPy's cosine of the vectors of words in context, also of equal words, for which
    spaCy's own is 1; and 0 with whitespace, whose vector is zeros, and with a document of another
    pipeline, which has none."""
    doc = pipeline(folder, layer="top")(BOTH + "  ")
    words = np.concatenate([elmo.embed(sentence, "top") for sentence in SENTENCES])
    the, other = words[2], words[5]
    parts = [(doc[2], the), (doc[5], other), (doc[:3], words[:3].mean(0)), (doc, words.mean(0))]
    assert doc[2].text == doc[5].text
    for (first, x), (second, y) in product(parts, parts):
        expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        assert first.similarity(second) == pytest.approx(expected, abs=1e-5)
    assert doc[2].similarity(doc[-1]) == doc[-1:].similarity(doc) == 0
    assert doc.similarity(spacy.blank("en")(BOTH)) == 0


@pytest.mark.parametrize("kind", ["bytes", "DocBin"])
def test_a_stored_document(folder: Path, kind: str) -> None:
    """A document keeps its vectors in spaCy's own bytes, as `tensor`. A `DocBin` does not keep
    them, but `user_data`. `set_hooks` makes them the vectors of its tokens again, with their
    similarity and without whitespace in means."""
    doc = pipeline(folder)(BOTH + "  ")
    if kind == "bytes":
        with pytest.warns(UserWarning, match="user hooks"):
            found = Doc(doc.vocab).from_bytes(doc.to_bytes())
    else:
        doc.user_data["tensor"] = doc.tensor
        stored = DocBin(docs=[doc], store_user_data=True).to_bytes()
        (found,) = DocBin().from_bytes(stored).get_docs(doc.vocab)
        with pytest.raises(InputError, match=rf"^doc\.tensor: .* {len(doc)} tokens, found 0$"):
            set_hooks(found)
        found.tensor = found.user_data["tensor"]
    assert np.array_equal(found.tensor, doc.tensor) and not np.allclose(found.vector, doc.vector)
    set_hooks(found)
    for part, stored in ((doc[3], found[3]), (doc[2:4], found[2:4]), (doc, found)):
        assert np.array_equal(part.vector, stored.vector) and part.vector.any()
        assert part.similarity(doc[5]) == stored.similarity(found[5])


def test_several_processes(folder: Path) -> None:
    """`n_process` gives the vectors of one process, also after it has computed with threads. A
    forked process has none of them, and waits for them without end if it computes with several."""
    with threads(2):
        nlp = pipeline(folder)
        expected = [nlp(text).tensor for text in SENTENCES]
        for doc, tensor in zip(nlp.pipe(SENTENCES, n_process=2, batch_size=1), expected):
            assert_close(doc.tensor, tensor, what="tensor", atol=1e-5)


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    """A layer is checked when the component is added, and a model is found when it is needed."""
    with pytest.raises(InputError, match="layer: expected one that has a single vector"):
        pipeline(folder, layer="all")
    with pytest.raises(FileNotFoundError, match="nothing"):
        pipeline(tmp_path / "nothing")(BOTH)
    with pytest.raises(InputError, match=r"^initial_state: expected zero or warm, .* 'carry'"):
        pipeline(folder, initial_state="carry")(BOTH)
    for device in ("cuda:99", "gpu"):
        with pytest.raises(InputError, match=f"^device: .* such as cpu or cuda:0, found '{device}"):
            pipeline(folder, device=device)(BOTH)
