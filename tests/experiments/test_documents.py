"""Documents read as one sentence. Expected values come from NumPy or are worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.plugin.models.archives import load_language_model
from experiments import documents
from experiments.probe import Tagged
from tests.conftest import WORDS

DOCUMENT = [["he", "threw", "the", "stick", "."], ["unheard-of"], ["the", "dog"]]
CONLL = """\
#begin document (a); part 000
a 0 0 he XX * - - - - * (0)
a 0 1 threw XX * - - - - * -

a 0 0 the XX * - - - - * -

#end document
#begin document (b); part 000
b 0 0 dog XX * - - - - * (1)

#end document
"""


def test_read_documents(tmp_path: Path) -> None:
    """By hand. A question mark before a lower-case letter does not end a sentence."""
    (tmp_path / "a.gold_conll").write_text(CONLL)
    found = documents.read_documents(tmp_path / "a.gold_conll")
    assert found == [[["he", "threw"], ["the"]], [["dog"]]]
    name = CONLL.split("(")[1].split(")")[0]
    assert documents.read_documents(tmp_path / "a.gold_conll", [name]) == found[1:]
    paragraph = {"context": 'It is 3.5 m. "Who? me," she said. Then', "qas": []}
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    (document,) = documents.read_documents(tmp_path / "a.json")
    assert [len(sentence) for sentence in document] == [5, 9, 1]
    assert document[1][1:5] == ["Who", "?", "me", ","]


def test_readings_and_edges() -> None:
    assert documents.read_as(DOCUMENT, "sentences") == DOCUMENT
    assert documents.read_as(DOCUMENT, "document") == [[w for s in DOCUMENT for w in s]]
    assert documents.edges(DOCUMENT).tolist() == [1, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("reading", documents.READINGS)
def test_word_losses(bilm_archive: str, reading: str) -> None:
    """The softmax of the top layer in NumPy: the forward half of the place before a word, and the
    backward half of the place after it."""
    model = load_language_model(bilm_archive).eval()
    sentences = documents.read_as(DOCUMENT, reading)
    elmo = Elmo.from_archive(bilm_archive)
    weight, bias = (x.detach().double().numpy() for x in (model.softmax.weight, model.softmax.bias))
    expected: list[list[float]] = [[], []]
    for words in sentences:
        with torch.no_grad():
            layers, _ = elmo.layers(elmo.characters([words]))
        top = layers[-1][0].double().numpy()
        for place, word in enumerate(words, start=1):
            number = WORDS.index(word) if word in WORDS else WORDS.index("<UNK>")
            halves = np.split(top[place - 1], 2)[0], np.split(top[place + 1], 2)[1]
            for direction, h in enumerate(halves):
                logits = weight @ h + bias
                expected[direction].append(np.log(np.exp(logits).sum()) - logits[number])
    np.testing.assert_allclose(documents.word_losses(model, sentences), expected, rtol=1e-4)


def test_cosines(bilm_archive: str) -> None:
    """The word layer does not depend on the reading; one sentence has only one reading."""
    elmo = Elmo.from_archive(bilm_archive)
    found = documents.cosines(elmo, DOCUMENT)
    assert found.shape == (4, 8)
    np.testing.assert_allclose(found[0], 1, rtol=1e-5)
    assert (found[1:] < 0.9999).any(axis=1).all()
    np.testing.assert_allclose(documents.cosines(elmo, DOCUMENT[:1]), 1, rtol=1e-5)


def test_rows(bilm_archive: str, tmp_path: Path) -> None:
    """A row for each reading, with equal numbers if each document is one sentence."""
    text = tmp_path / "a.gold_conll"
    rows = documents.text_rows("a", bilm_archive, text, [[sentence] for sentence in DOCUMENT[::2]])
    one, other = (row["metrics"] for row in rows)
    assert one["joint"] == pytest.approx(other["joint"])
    assert [row["settings"]["reading"] for row in rows] == ["sentences", "document"]
    assert one["joint"] == pytest.approx((one["forward"] * one["backward"]) ** 0.5)
    assert len(documents.documents_table(rows).splitlines()) == 4
    assert documents.cosines_table(rows).splitlines()[2] == (
        "| a | a | 1.000 | 1.000 | 1.000 | 1.000 |"
    )


def test_inner_words(bilm_archive: str, tmp_path: Path) -> None:
    """By hand, words 2 to 4 are inside a sentence. Their losses are those of `word_losses`, which
    are NumPy's, with the state `warm`."""
    model = load_language_model(bilm_archive).eval()
    model.initial_state = "warm"
    rows = documents.text_rows("a", bilm_archive, tmp_path / "a.gold_conll", [DOCUMENT])
    for row in rows:
        sentences = documents.read_as(DOCUMENT, row["settings"]["reading"])
        expected = np.exp(documents.word_losses(model, sentences)[:, 1:4].mean())
        assert row["metrics"]["joint_inner"] == pytest.approx(float(expected))


def test_rows_of_a_treebank(
    bilm_archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifier reads the averages that `Elmo.embed` gives for one sentence, or for all as
    one, and is scored on the development set."""
    monkeypatch.setattr(documents, "read_treebank", lambda _: (tagged, Tagged([["dog"]], ["X"])))
    seen = []
    monkeypatch.setattr(documents, "probe_accuracy", lambda *parts: seen.append(parts) or 50.0)
    tagged = Tagged(DOCUMENT, list("ABCDEFGH"))
    rows = documents.treebank_rows("a", bilm_archive, tmp_path, tmp_path / "work")
    assert [row["metrics"]["accuracy"] for row in rows] == [50.0, 50.0]
    elmo = Elmo.from_archive(bilm_archive)
    for reading, (train, train_tags, dev, dev_tags) in zip(documents.READINGS, seen, strict=True):
        expected = elmo.embed(documents.read_as(DOCUMENT, reading), layer="average")
        np.testing.assert_allclose(train, np.concatenate(expected), rtol=2e-3, atol=1e-4)
        (expected,) = elmo.embed([["dog"]], layer="average")
        np.testing.assert_allclose(dev, expected, rtol=2e-3, atol=1e-4)
        assert (train_tags, dev_tags) == (tagged.tags, ["X"])


def test_joined() -> None:
    tagged = Tagged([["a"], ["b", "c"]] * 15, ["X", "Y", "Z"] * 15)
    found = documents.joined(tagged)
    assert [len(sentence) for sentence in found.sentences] == [30, 15]
    assert found.tags == tagged.tags
