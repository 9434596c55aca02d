"""`documents=` of `LanguageModel`, compared with a call for each sentence and with the oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.elmo import documents as module
from tests.conftest import Said
from tests.elmo.test_language_model import SENTENCES, WORDS, distributions, language_model, start

DOCUMENTS = ["a", "a", "a", "b", "c", "c", "c", "c", "d"]
TEXT = [
    sentence.split()
    for sentence in (
        "The nurse drank the cold water . | She was thirsty . | It rained . | He left ! | Why ? | "
        "| It is n't easy , because Dr. Smith knows . | A dog barks at night . | The end ."
    ).split("|")
]
NAMES = ("forward", "backward", "forward_entropy", "backward_entropy")


def one_by_one(sentences: Any, labels: Any, **kwargs: Any) -> list[Any]:
    """One call for each sentence under `carry`, and `clear_caches()` before each document."""
    model = LanguageModel.from_pretrained("tiny", initial_state="carry")
    scores, before = [], None
    for sentence, label in zip(sentences, labels, strict=True):
        if label != before:
            model.clear_caches()
        scores += model.score([sentence], **kwargs)
        before = label
    return scores


def assert_equal(found: list[Any], expected: list[Any], names: Any = NAMES) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.tokens == other.tokens
        for name in names:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-5)


@pytest.mark.parametrize("initial_state", ["zero", "carry"])
@pytest.mark.parametrize("most, max_tokens", [(256, 2048), (2, 12), (1, 1)])
def test_documents_are_read_on(initial_state, most, max_tokens, monkeypatch):
    """Expected: one call for each sentence under `carry`, whatever the batches are. The state that
    the model carries itself and the warm state stay as they are."""
    monkeypatch.setattr(module, "MOST_DOCUMENTS", most)
    model = LanguageModel.from_pretrained("tiny", initial_state=initial_state)
    model.score("It rained .")
    before, warm = model.carried.state, [x.clone() for x in model.bilm.warm_state(1)]
    found = model.score(TEXT, entropy=True, documents=DOCUMENTS, max_tokens=max_tokens)
    assert_equal(found, one_by_one(TEXT, DOCUMENTS, entropy=True))
    assert model.carried.state is before
    assert all(map(torch.equal, warm, model.bilm.warm_state(1)))
    assert abs(found[1].forward[0] - model.score([TEXT[1]], documents=[0])[0].forward[0]) > 0.01


def test_a_document_starts_warm(tmp_path: Path) -> None:
    """Expected: the oracle, which reads the sentences of a document one after another from the warm
    state, the backward direction each sentence reversed."""
    model, labels = language_model(), [7, 7, 7, 8, 8]
    found = model.score(SENTENCES, base="e", documents=np.array(labels))
    state, before = start(model), 7
    for scores, sentence, label in zip(found, SENTENCES, labels, strict=True):
        state = state if label == before else start(model)
        before, ids = label, [WORDS.index(w) if w in WORDS else 2 for w in sentence]
        (forward, backward), state = distributions(model, tmp_path, sentence, state)
        n = np.arange(len(ids) + 1)
        np.testing.assert_allclose(scores.forward, forward[n, [*ids, 1]], atol=1e-5)
        np.testing.assert_allclose(scores.backward, backward[n, [0, *ids]], atol=1e-5)


def test_raw_text_of_documents() -> None:
    """Expected: the sentences of a string follow one another in its document. The perplexity is
    that of the log probabilities."""
    sentences = ["It rained .", "She left .", "He ran !", "Why ?", "The dog barks ."]
    split, labels = [x.split() for x in sentences], [0, 0, 0, 0, 1]
    raw = ["It rained. She left. He ran!", "Why?", "The dog barks."]
    model = LanguageModel.from_pretrained("tiny", initial_state="zero")
    expected = one_by_one(split, labels)
    texts = pandas.Series(raw, index=[3, 1, 2])
    first, *others = model.score(texts, raw=True, documents=pandas.Series(["x", "x", "y"]))
    assert_equal(others, expected[3:], NAMES[:2])
    words = [x.forward[:-1] for x in expected[:3]]
    ends = sum(x.forward[-1] for x in expected[:3])
    np.testing.assert_allclose(first.forward, [*np.hstack(words), ends], rtol=0, atol=1e-5)
    mean = np.hstack([x.forward for x in expected]).mean()
    # A blank line of a document is no sentence.
    found = model.perplexity([[], *split], documents=[labels[0], *labels])
    assert found["forward_perplexity"] == pytest.approx(2**-mean, rel=1e-5)


def test_labels(said: Said) -> None:
    """By definition: a label for each sentence, and a label that returns is another document."""
    model = LanguageModel.from_pretrained("tiny")
    three = [["A", "dog", "."]] * 3
    for wrong in ([1], [1, 2, None], [1, 2, float("nan")], "abc"):
        expected = "a label for each" if wrong == "abc" else "3 labels"
        with pytest.raises(InputError, match=rf"documents: expected {expected}.*, found "):
            model.score(three, documents=wrong)
    assert not said()
    found = model.score(three, documents=["a", "b", "a"])
    assert "where a label occurs again after another one, such as 'a';" in said()[0]
    assert_equal(found, model.score(three), NAMES[:2])
    assert model.score([], documents=[]) == []
