"""Missing scores, regions and continuations, compared with the oracle."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import regions, score_columns
from tests.conftest import Said
from tests.elmo.test_language_model import SENTENCES, WORDS, distributions, language_model, start


@pytest.fixture
def model() -> LanguageModel:
    return language_model()


def test_unknown_words_are_missing(model: LanguageModel) -> None:
    """Expected: the numbers with `<UNK>`, and NaN for the words that the softmax lacks, except
    their entropies, which do not depend on the word."""
    plain = model.score(SENTENCES, entropy=True, rank=True)
    found = model.score(SENTENCES, entropy=True, rank=True, unknown_missing=True)
    assert not all(x.in_vocabulary.all() for x in plain)
    for one, other in zip(found, plain, strict=True):
        gone = ~other.in_vocabulary
        for direction, is_missing in (("forward", [*gone, False]), ("backward", [False, *gone])):
            for name in (direction, f"{direction}_rank"):
                expected = np.where(is_missing, np.nan, getattr(other, name))
                np.testing.assert_array_equal(getattr(one, name), expected)
            name = f"{direction}_entropy"
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        np.testing.assert_array_equal(np.isnan(one.surprisal), gone)
    table = pandas.DataFrame(score_columns(found))
    assert list(table.columns[-3:]) == ["surprisal", "forward_rank", "backward_rank"]
    assert table["surprisal"].isna().tolist() == (~table["in_vocabulary"]).tolist()


def test_a_region() -> None:
    """By hand: the tokens that the characters are in, of a text with two sentences."""
    model, text = LanguageModel.from_pretrained("tiny"), "The old dog isn't here, is it? He left."
    scores = model.score(text, raw=True, base="e")
    bits = -scores.forward[:-1] / np.log(2)
    assert scores.tokens[2:6] == ["dog", "is", "n't", "here"]
    for first, last, tokens in (
        ("dog", " isn't", [2]),
        ("here", ", is", [5]),  # without the comma
        ("isn't", " here", [3, 4]),
        ("g isn't", "sn't", [2, 3]),  # partly in it
        ("it?", "left", [8, 9, 10]),
    ):
        found = scores.region(text.index(first), text.index(last))
        assert found == pytest.approx(bits[tokens].sum())
    with pytest.raises(InputError, match=r"^sentence 0: region: .*token, found \(3, 4\)"):
        scores.region(3, 4)
    for empty in ((0, 0), (5, 5), (3, 3), (len(text), len(text))):
        assert scores.region(*empty) == 0.0
    for wrong in ((6, 5), (-1, 3), (30, len(text) + 1), (90, 95), (0, np.nan), (0.5, 3)):
        with pytest.raises(InputError, match=rf"^sentence 0: region: .*end <= {len(text)}, found"):
            scores.region(*wrong)
    with pytest.raises(InputError, match=r"^sentence 0: region: expected the scores of raw text"):
        model.score("The dog .").region(0, 3)


def test_regions_of_rows() -> None:
    """By definition: the sums of `region`, also for whole floats, and NaN in a row without a
    region. Errors have the row's label, or its number in a list."""
    texts = pandas.Series(["A dog.", "It ran.", "He left."], index=[10, 20, 30])
    scores = LanguageModel.from_pretrained("tiny").score(texts, raw=True)
    expected = [scores[0].region(2, 5), np.nan, scores[2].region(3, 7)]
    np.testing.assert_allclose(regions([scores[0], scores[2]], [2.0, 3], [5, 7]), expected[::2])
    for missing in (None, np.nan, pandas.NA):
        starts = pandas.Series([2, missing, 3], texts.index, dtype=object)
        ends = pandas.Series([5, missing, 7], texts.index, dtype=object)
        for columns in ((starts, ends), (starts.astype("Int64"), ends.astype("Int64"))):
            np.testing.assert_allclose(regions((x for x in scores), *columns), expected)
    for given, starts, ends, message in (
        (texts, [2, 3, 3], [5, 6, 7], r"scores: row 10: expected what LanguageModel\.score re"),
        (scores, pandas.Series([2, 3, 3], texts.index), [5, np.nan, 7], r"row 20: .* \(3, nan\)$"),
        (scores, [2, 3, 3], [5, 6, 9], r"sentence 2: region: .*end <= 8, found \(3, 9\)"),
        (scores, [2, 3, 3], [5, 6], "end: expected 3 numbers, one for each sentence, found 2"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            regions(given, starts, ends)
    assert regions([], [], []).shape == (0,)


SPILLED = "The old dog isn't here, is it? He left. \u2014 So?"


def test_words_after_a_region() -> None:
    """Expected: `region` of each of the next words, which are found by a regular expression; those
    of the next sentence, whose first word is written by hand, are missing."""
    model = LanguageModel.from_pretrained("tiny")
    scores = model.score(SPILLED, raw=True)
    words = [match.span() for match in re.finditer(r"\S+", SPILLED)]
    sentence_of = [scores.sentence[scores.words.index(word)] for word in range(len(words))]
    assert sentence_of[:8] == [0] * 6 + [0, 1] and len(words) == len(set(scores.words))
    for of_word, (begin, end) in enumerate(words):
        for first, last in ((begin, end), (begin, begin + 1), (begin, begin)):
            following = range(of_word + (first < last), len(words))
            own = [k for k in following if sentence_of[k] == sentence_of[of_word]][:3]
            expected = [scores.region(first, last), *(scores.region(*words[k]) for k in own)]
            expected += [np.nan] * (4 - len(expected))
            found = regions([scores], [first], [last], after=3)
            np.testing.assert_allclose(found, [expected], rtol=1e-9)
    unknown = model.score("The zorblax, he said.", raw=True, unknown_missing=True)
    for given, ends, expected in (
        (scores, [3], [False, False, False]),
        (scores, [None], [True, True, True]),
        (model.score("", raw=True), [0], [False, True, True]),
        (unknown, [3], [False, True, False]),
    ):
        found = regions([given], [0 if ends[0] is not None else None], ends, after=2)
        assert np.isnan(found).tolist() == [expected]
    assert regions([], [], [], after=2).shape == (0, 3)
    with pytest.raises(InputError, match=r"^after: expected a whole number from 0 to "):
        regions([scores], [0], [3], after=-1)


def test_continuations(model: LanguageModel, tmp_path: Path) -> None:
    """Expected: the sum of the oracle's log probabilities of a continuation's words, whatever
    follows it. Of an unknown word it is that of `<UNK>`, or missing."""
    prefixes = [["the", "dog"], [], ["zyx"]]
    phrases = [["ran", "ran .", ["the", "dog", "."]], ["the", "zyx the"], [". ."]]
    found = model.score_continuations(prefixes, phrases, "e")
    for prefix, own, numbers in zip(prefixes, phrases, found, strict=True):
        for phrase, number in zip(own, numbers, strict=True):
            words = phrase.split() if isinstance(phrase, str) else phrase
            sentence = [*prefix, *words]
            (log_p, _), _ = distributions(model, tmp_path, sentence, start(model))
            ids = [WORDS.index(w) if w in WORDS else 2 for w in sentence]
            expected = sum(log_p[k, ids[k]] for k in range(len(prefix), len(sentence)))
            assert number == pytest.approx(expected, rel=1e-5)
            joined = model.score(sentence).forward[len(prefix) : len(sentence)].sum()
            bits = model.score_continuations(" ".join(prefix), [phrase])
            assert bits == pytest.approx([joined], rel=1e-5)
    missing = model.score_continuations("the", ["dog", "dog zyx"], unknown_missing=True)
    assert np.isnan(missing).tolist() == [False, True]


def test_forms_of_continuations(model: LanguageModel) -> None:
    """By definition: the numbers are those of single beginnings. A list of strings is shared by
    all beginnings, and a column or an array has one for each, or a list for each; without rows, the
    result is an empty one of the same type."""
    beginnings = pandas.Series(["the", "the dog"], index=[10, 20])
    words, score = ["dog", "ran ."], model.score_continuations
    ends = pandas.Series(words, beginnings.index)
    apart = np.stack([score(x, words) for x in beginnings])
    lists = pandas.Series([words, words[1:]], beginnings.index)
    first, second = score(beginnings, lists)
    for found, expected in (
        (score(beginnings, words), apart),
        (score(beginnings, tuple(words)), apart),
        (score(beginnings, ends), apart.diagonal()),
        (score(beginnings, ends.to_numpy()), apart.diagonal()),
        (first, apart[0]),
        (second, apart[1, 1:]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    none = pandas.Series([], dtype=str)
    for prefixes in ([], none):
        found = score(prefixes, none)
        assert isinstance(found, np.ndarray) and found.shape == (0,) and found.dtype == np.float64
        assert score(prefixes, []) == score(prefixes, ["dog"]) == []


def test_continuations_of_a_model_that_carries() -> None:
    """By definition: they start from zeros and leave the carried state as it is."""
    carry = language_model(initial_state="carry")
    carry.score(SENTENCES[0])
    before = carry.carried.state
    found = carry.score_continuations("the dog", ["ran", "."])
    assert carry.carried.state is before
    expected = language_model(initial_state="zero").score_continuations("the dog", ["ran", "."])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_wrong_continuations(model: LanguageModel, said: Said) -> None:
    """By definition: errors name the argument, and a warning names words that are unknown."""
    two = [["the"], ["dog"]]
    for prefixes, wrong, message in (
        ("the", [], "continuations: expected at least one, and words in each"),
        ("the", ["dog", " "], "continuations: expected at least one, and words in each"),
        ("the", 3, "continuations: .*found 3"),
        (two, [["dog"]], "continuations: .* 2 beginnings"),
        (two, pandas.Series(["dog", np.nan], [10, 20]), "row 20: .*found nan"),
        (two, [["dog"], "the"], "sentence 1: continuations: .*found 'the'"),
        (two, pandas.Series(["dog"] * 3), "continuations: .* 2 beginnings"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            model.score_continuations(prefixes, wrong)
    for call in (model.score_continuations, lambda *x: model.score(x[0], base=x[2])):
        with pytest.raises(InputError, match=r"^base: expected one of 2, 'e', found 10$"):
            call("the", ["dog"], 10)
    assert not said()
    model.score_continuations("the", ["abc", "def", "ghi"])
    assert "are unknown to the model" in said()[0]
