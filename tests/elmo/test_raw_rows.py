"""
Strings of raw text with several sentences, each of which is one row of the result. The oracle reads
the sentences apart, as lists of tokens that are written by hand.
"""

from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import regions, score_columns
from elmo_plugin.text import Sentence, running_text
from tests import compare

TEXTS = [
    "The nurse drank the cold water. She was thirsty.",
    "He left!",
    "",
    "Why? It isn't easy. Dr. Smith knows.",
]
SENTENCES = [
    ["The nurse drank the cold water .", "She was thirsty ."],
    ["He left !"],
    [""],
    ["Why ?", "It is n't easy .", "Dr. Smith knows ."],
]
APART = [sentence.split() for row in SENTENCES for sentence in row]
IN_ROWS = [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 7)]


assert_close = partial(compare.assert_close, what="numbers of a row")


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("layer", ["mix", "all"])
def test_vectors_follow_one_another(elmo: Elmo, layer: str, as_tensors: bool) -> None:
    apart = elmo.embed(APART, layer)
    found = elmo.embed(TEXTS, layer, as_tensors, raw=True)
    streamed = list(elmo.stream(TEXTS, layer, raw=True))
    means = elmo.embed(pandas.Series(TEXTS), layer, as_tensors, pool="mean", raw=True)
    for k, row in enumerate(IN_ROWS):
        expected = np.concatenate(apart[row], axis=-2)
        assert isinstance(found[k], torch.Tensor if as_tensors else np.ndarray)
        assert_close(np.asarray(found[k]), expected, atol=1e-6)
        assert_close(streamed[k], expected, atol=1e-6)
        mean = expected.sum(axis=-2) / max(1, expected.shape[-2])
        assert_close(np.asarray(means[k]), mean, atol=1e-6)


def test_scores_follow_one_another(model: LanguageModel) -> None:
    """The boundaries of a row have the sums of those of its sentences."""
    apart = model.score(APART, entropy=True)
    for found, row in zip(model.score(TEXTS, entropy=True, raw=True), IN_ROWS, strict=True):
        some = apart[row]
        assert found.tokens == [token for x in some for token in x.tokens]
        assert found.in_vocabulary.tolist() == [y for x in some for y in x.in_vocabulary]
        assert found.sentence == [k for k, x in enumerate(some) for _ in x.tokens]
        for name in ("forward", "forward_entropy", "backward", "backward_entropy"):
            numbers, own = [getattr(x, name) for x in some], getattr(found, name)
            if name.startswith("backward"):  # the boundary comes first
                numbers, own = [np.roll(x, -1) for x in numbers], np.roll(own, -1)
            expected = [*np.concatenate([x[:-1] for x in numbers]), sum(x[-1] for x in numbers)]
            assert_close(own, expected, atol=1e-5)
    text = TEXTS[3]
    found = model.score(text, raw=True)
    assert [text[start:end] for start, end in found.spans] == found.tokens
    assert found.words == [0, 0, 1, 2, 2, 3, 3, 4, 5, 6, 6]


def test_rows_of_sentences(model: LanguageModel) -> None:
    """Sentences of a running text in one row have the scores and the numbers of the raw text, and
    sentences of tokens those of the tokens. `regions` reads the words of the row."""
    text = TEXTS[3]
    (found,), expected = model.score([list(running_text(text))]), model.score(text, raw=True)
    for name in ("tokens", "sentence", "words", "spans", "n_predictions"):
        assert getattr(found, name) == getattr(expected, name)
    some = [regions(x, [5], [7], after=2) for x in (found, expected)]
    assert_close(some[0], some[1], atol=1e-5)
    (found,) = model.score([[Sentence(tokens) for tokens in APART[4:]]])
    assert found.sentence == expected.sentence and found.n_predictions == expected.n_predictions
    assert found.spans is None and found.words is None
    (found,) = model.score([[x for _ in range(2) for x in running_text("It ran.")]])
    assert (found.sentence, found.words) == ([0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 3, 3])


def test_a_table_of_rows(model: LanguageModel) -> None:
    """By definition: a token has the number of its row, its place in the row, and the number of its
    sentence in the row."""
    table = pandas.DataFrame(score_columns(model.score(TEXTS, raw=True)))
    assert list(table[table["sentence"] == 3]["position"]) == list(range(11))
    assert list(table[table["sentence"] == 0]["sentence_in_row"]) == [0] * 7 + [1] * 4
    places = ["start", "end", "word", "sentence_in_row"]
    assert list(table.columns[-5:]) == [*places, "surprisal"]


def test_perplexity_counts_every_end(model: LanguageModel) -> None:
    """The mean is over the tokens and a boundary of each sentence. A blank text has none."""
    found = model.perplexity(TEXTS, raw=True)
    expected = model.perplexity(APART)
    n = sum(len(tokens) + 1 for tokens in APART if tokens)
    texts = list(filter(str.strip, TEXTS))
    total = sum(x.forward.sum() for x in model.score(texts, base="e", raw=True))
    assert found == pytest.approx(expected, rel=1e-5)
    assert found["forward_perplexity"] == pytest.approx(np.exp(-total / n), rel=1e-5)


@pytest.mark.parametrize("direction", ["both", "forward"])
def test_substitutes_are_of_tokens_of_the_row(model: LanguageModel, direction: str) -> None:
    """A target is the number of the token in the row, in any order, and its context is its own
    sentence."""
    apart = model.substitutes(APART, direction=direction)
    in_rows = [[words for some in apart[row] for words in some] for row in IN_ROWS]
    found = model.substitutes(TEXTS, direction=direction, raw=True)
    chosen = model.substitutes(
        TEXTS, [[8, 1, 8], np.array([2]), [], []], direction=direction, raw=True
    )
    expected = [[in_rows[0][k] for k in (8, 1, 8)], [in_rows[1][2]], [], []]
    for one, other in ((found, in_rows), (chosen, expected)):
        assert list(map(len, one)) == list(map(len, other))
        for x, y in zip(chain(*one), chain(*other), strict=True):
            assert_close([s.probability for s in x], [s.probability for s in y], atol=1e-5)
            assert x[0].word == y[0].word
    one = model.substitutes(TEXTS[0], 8, direction=direction, raw=True)
    assert one[0].word == in_rows[0][8][0].word
    with pytest.raises(InputError, match=r"^targets\[0\]: .* from 0 to 10, found 11"):
        model.substitutes(TEXTS[0], 11, raw=True)


def test_characters_and_the_warm_state(elmo: Elmo) -> None:
    """The rows of the character ids are sentences."""
    assert torch.equal(elmo.characters(TEXTS, raw=True), elmo.characters(APART))
    first, second = Elmo.from_pretrained("tiny"), Elmo.from_pretrained("tiny")
    first.warm_up(TEXTS[0], 2, raw=True)
    second.warm_up(APART[:2], 2)
    for name, state in first.bilm.warm_state.state_dict().items():
        assert torch.equal(state, second.bilm.warm_state.state_dict()[name]), name
    with pytest.raises(InputError, match=r"^expected several sentences"):
        first.warm_up(TEXTS[1], raw=True)


def test_rows_of_several_sentences_under_carry() -> None:
    """A row that is read alone is read sentence by sentence, and others are refused, because each
    row would continue another number of sentences."""
    first, second, third = (Elmo.from_pretrained("tiny", initial_state="carry") for _ in "abc")
    found = [first.embed(text, raw=True) for text in TEXTS]
    for own, row, streamed in zip(found, IN_ROWS, third.stream(TEXTS, raw=True), strict=True):
        expected = np.concatenate([second.embed([tokens])[0] for tokens in APART[row]])
        assert_close(own, expected, atol=1e-6)
        assert np.array_equal(own, streamed)
    model = LanguageModel.from_pretrained("tiny", initial_state="carry")
    for call in (first.embed, model.score, model.substitutes):
        with pytest.raises(InputError, match=r"^initial_state carry: .* 2 in row 0"):
            call(TEXTS, raw=True)


def test_uses_of_rows(elmo: Elmo, tmp_path: Path) -> None:
    """By hand: the text and the position are those of the sentence, and its number in the line or
    string tells the sentences of a row apart."""
    lines = ["She ran. She was thirsty.", "", "They left. So she ran."]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    columns = ["token", "sentence", "sentence_in_row", "line", "position", "text"]
    expected = [
        ("She", 0, 0, 0, 0, "She ran ."),
        ("She", 0, 1, 0, 0, "She was thirsty ."),
        ("she", 2, 1, 2, 1, "So she ran ."),
    ]
    for corpus in (tmp_path / "text", lines):
        found = elmo.uses(corpus, {"she": ["she", "She"]}, raw=True)
        assert list(found[columns].itertuples(index=False, name=None)) == expected
        for vector, text, position in zip(found["vector"], found["text"], found["position"]):
            assert_close(vector, elmo.embed(text, "top")[position], atol=1e-5)
