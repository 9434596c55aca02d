"""`documents=` of `LanguageModel`, compared with a call for each sentence and with the oracle."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.elmo import documents as module
from tests.conftest import Said
from tests.elmo.test_language_model import SENTENCES, WORDS, distributions, language_model, start

DOCUMENTS = ["a", "a", "a", "b", "c", "c", "c", "c", "d"]
TEXT = [
    sentence.split()
    for sentence in (
        "The nurse drank the cold water .",
        "She was thirsty .",
        "It rained .",
        "He left !",
        "Why ?",
        "",
        "It is n't easy , because Dr. Smith knows .",
        "A dog barks at night .",
        "The end .",
    )
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
def test_documents_are_read_on(
    initial_state: str, most: int, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: one call for each sentence under `carry`, whatever the batches are. The state that
    the model carries itself stays as it is."""
    monkeypatch.setattr(module, "MOST_DOCUMENTS", most)
    model = LanguageModel.from_pretrained("tiny", initial_state=initial_state)
    model.score("It rained .")
    before = model.carried.state
    found = model.score(TEXT, entropy=True, documents=DOCUMENTS, max_tokens=max_tokens)
    assert_equal(found, one_by_one(TEXT, DOCUMENTS, entropy=True))
    assert model.carried.state is before
    apart = model.score([TEXT[3], TEXT[8]], documents=[0, 1])
    assert_equal([found[3], found[8]], apart, NAMES[:2])
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
    texts = pandas.Series(
        ["It rained. She left. He ran!", "Why?", "The dog barks."], index=[3, 1, 2]
    )
    model = LanguageModel.from_pretrained("tiny", initial_state="zero")
    split = [
        s.split() for s in ("It rained .", "She left .", "He ran !", "Why ?", "The dog barks .")
    ]
    expected = one_by_one(split, [0, 0, 0, 0, 1])
    first, *others = model.score(texts, raw=True, documents=pandas.Series(["x", "x", "y"]))
    assert_equal(others, expected[3:], NAMES[:2])
    words = [x.forward[:-1] for x in expected[:3]]
    np.testing.assert_allclose(first.forward[:-1], np.hstack(words), rtol=0, atol=1e-5)
    ends = sum(x.forward[-1] for x in expected[:3])
    assert first.forward[-1] == pytest.approx(ends, abs=1e-5)
    mean = np.hstack([x.forward for x in expected]).mean()
    found = model.perplexity(split, documents=[0, 0, 0, 0, 1])
    assert found["forward_perplexity"] == pytest.approx(2**-mean, rel=1e-5)


def test_labels(said: Said) -> None:
    """By definition: a label for each sentence, and a label that returns is another document."""
    model = LanguageModel.from_pretrained("tiny")
    two = [["A", "dog", "."]] * 3
    for wrong, message in (
        ([1], r"documents: expected 3 labels, each a string or a whole number, found \[1\]"),
        ("abc", r"documents: expected a label for each sentence, found 'abc'"),
        ([1, 2, None], r"documents: expected 3 labels, each a string .*, found \[1, 2, None\]"),
        ([1, 2, float("nan")], r"documents: expected 3 labels, .*, found \[1, 2, nan\]"),
    ):
        with pytest.raises(InputError, match=message):
            model.score(two, documents=wrong)
    assert not said()
    found = model.score(two, documents=["a", "b", "a"])
    assert "where a label occurs again after another one, such as 'a';" in said()[0]
    assert_equal(found, model.score(two), NAMES[:2])
    assert model.score([], documents=[]) == []


def test_a_start_is_not_shared() -> None:
    """Property: the warm state is the same before and after documents are read."""
    model = LanguageModel.from_pretrained("tiny")
    before = warm_state_of(model)
    model.score(TEXT, documents=DOCUMENTS)
    assert all(np.array_equal(x, y) for x, y in zip(before, warm_state_of(model), strict=True))


def warm_state_of(model: LanguageModel) -> list[np.ndarray]:
    return [x.numpy().copy() for x in model.bilm.warm_state(1)]
