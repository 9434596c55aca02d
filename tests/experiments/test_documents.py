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


def test_joined() -> None:
    tagged = Tagged([["a"], ["b", "c"]] * 15, ["X", "Y", "Z"] * 15)
    found = documents.joined(tagged)
    assert [len(sentence) for sentence in found.sentences] == [30, 15]
    assert found.tags == tagged.tags
