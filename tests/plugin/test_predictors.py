"""These tests run the predictors `bilm` and `elmo` on the archive of a tiny language model."""

import io
import json
import math
from typing import Any

import numpy
import pytest
import torch
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.predictors import BiLMPredictor
from tests.conftest import BLOCKS, WORDS

TOKENS = ["he", "threw", "unheard-of", "dog", "."]
SENTENCE = " ".join(TOKENS)
SOME = {"tokens": ["the", "dog"]}


@pytest.fixture(scope="module")
def bilm(bilm_archive):
    return Predictor.from_path(bilm_archive)


def test_forms_of_input(bilm):
    """The same sentence is given as JSON with tokens, as JSON with a sentence, and as a line of
    text."""
    expected = bilm.predict_json({"tokens": TOKENS})
    assert bilm.predict_json({"sentence": SENTENCE}) == expected
    for line in (f'{{"sentence": "{SENTENCE}"}}\n', f"  {SENTENCE}\n"):
        assert bilm.predict_json(bilm.load_line(line)) == expected
    assert bilm.load_line("{ 1 , 2 }\n") == {"sentence": "{ 1 , 2 }"}
    with pytest.raises(InputError, match=r"^expected JSON, found "):
        bilm.load_line('{"sentence": "He ran ."\n')
    for wrong in ({}, {"tokens": "he"}, {"sentence": ["he"]}, {"tokens": [1]}):
        with pytest.raises(InputError, match=r"^expected .*, found \{.*\}$"):
            bilm.predict_json(wrong)
    for tokens in (["New\tYork"], ["he", ""]):
        with pytest.raises(InputError, match=r"^tokens: expected tokens, which are words"):
            bilm.predict_json({"tokens": tokens})


def test_unknown_words_are_warned_of_once(bilm_archive, said):
    """A file is predicted in batches: by definition, one warning for all."""
    predictor = Predictor.from_path(bilm_archive)
    for tokens in (["zyx", "xyz", "yzx"], ["zzz"]):
        predictor.predict_batch_json([{"tokens": tokens}] * 2)
    assert sum("are unknown to the model" in x for x in said()) == 1


@pytest.mark.parametrize("name", ["bilm", "elmo"])
def test_models_of_another_type_are_refused(name):
    """As `predict TASK --predictor elmo` gives them, which the error answers with a command."""
    message = "expected a model of type bilm, found Linear; python -m elmo_plugin elmo"
    with pytest.raises(InputError, match=message):
        Predictor.by_name(name)(torch.nn.Linear(1, 1), None)


def test_words_of_any_language_are_readable(bilm):
    """The line is JSON in UTF-8, in which words stand as they were given, except for what UTF-8
    cannot hold."""
    tokens = ["naïve", "犬", "a\ud800b"]
    line = bilm.dump_line(bilm.predict_json({"tokens": tokens}))
    assert '["naïve", "犬", "a\\ud800b"]' in line
    assert line.encode("utf-8").endswith(b"}\n") and line.count("\n") == 1
    assert json.loads(line)["tokens"] == tokens


def test_words_that_the_terminal_lacks(bilm, monkeypatch):
    """The line is JSON in ASCII, with the same words."""
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    line = bilm.dump_line({"tokens": ["naïve", "犬", "a\ud800b"]})
    assert line == '{"tokens": ["na\\u00efve", "\\u72ac", "a\\ud800b"]}\n'
    assert bilm.dump_line({"tokens": ["naïve"]}) == '{"tokens": ["naïve"]}\n'


def test_perplexity(bilm):
    """By definition: of both directions together, with the end and the beginning."""
    found = bilm.predict_json({"tokens": TOKENS})
    log_p = found["forward_log_probabilities"] + found["backward_log_probabilities"]
    assert len(log_p) == 2 * (len(TOKENS) + 1)
    assert found["perplexity"] == pytest.approx(math.exp(-sum(log_p) / len(log_p)))


@pytest.mark.parametrize("n_words", [0, 1, 4, 5])
def test_substitutes_of_few_words(n_words):
    """A vocabulary of five words or fewer gives all of them and nothing else, so that their
    probabilities add up to 1."""
    vocab = BiLMVocabulary.from_words(WORDS[: 3 + n_words])
    sizes: dict[str, Any] = {**BLOCKS, "n_negative_samples": None}
    model = BiLMModel(vocab, **sizes)
    predictor = BiLMPredictor(model, BiLMDatasetReader())
    for found in predictor.predict_json({"tokens": TOKENS})["substitutes"]:
        assert sorted(x["word"] for x in found) == sorted(WORDS[3 : 3 + n_words])
        if n_words:
            assert sum(x["probability"] for x in found) == pytest.approx(1)


def test_substitutes_leave_the_carried_state(bilm_archive):
    """Under `carry` a sentence starts from the state after the one before it. The expected
    perplexities are those of `forward_on_instances`, which reads each sentence once."""
    sentences = [TOKENS, ["A"], ["to", "dog"], TOKENS]
    expected, predicted = (
        Predictor.from_path(bilm_archive, "bilm", overrides='{"model.initial_state": "carry"}')
        for _ in range(2)
    )
    for tokens in sentences:
        instance = expected._json_to_instance({"tokens": tokens})
        expected._dataset_reader.apply_token_indexers(instance)
        [right] = expected._model.forward_on_instances([instance])
        found = predicted.predict_json({"tokens": tokens})
        for name in ("forward_log_probabilities", "backward_log_probabilities"):
            numpy.testing.assert_allclose(found[name], right[name], rtol=1e-5)


def test_batches_are_sentences_by_themselves(bilm):
    """The output for a sentence in a batch of unequal lengths is the same as alone."""
    inputs = [{"tokens": TOKENS}, {"tokens": ["A"]}, {"tokens": ["to", "dog"]}]
    together = bilm.predict_batch_json(inputs)
    for one, sentence in zip(together, inputs):
        alone = bilm.predict_json(sentence)
        assert one["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-5)
        assert [[x["word"] for x in token] for token in one["substitutes"]] == [
            [x["word"] for x in token] for token in alone["substitutes"]
        ]


@pytest.mark.parametrize("name", ["bilm", "elmo"])
@pytest.mark.parametrize("empty", [{"tokens": []}, {"sentence": ""}, {"sentence": " \u3000"}])
def test_a_sentence_without_tokens(bilm_archive, name, empty):
    """There is nothing to predict, which is an error alone and in a batch, as a blank line is."""
    predictor = Predictor.from_path(bilm_archive, name)
    for predict in (predictor.predict_json, lambda x: predictor.predict_batch_json([SOME, x])):
        with pytest.raises(InputError, match=r"^expected at least one token, found \{.*\}$"):
            predict(empty)
    with pytest.raises(InputError, match=r"^expected a sentence, found an empty line$"):
        predictor.load_line(" \n")


def test_words_that_the_vocabulary_lacks(bilm):
    """By hand, from the ten words of the archive. A word that the vocabulary lacks has the
    probability of `<UNK>`, which is the same for each of them; `<UNK>` itself is not a word."""
    tokens = ["he", "zyxqvish", "threw", "He", "<UNK>", "<S>", "."]
    [found, _] = bilm.predict_batch_json([{"tokens": tokens}, SOME])
    assert found["in_vocabulary"] == [True, False, True, False, False, True, True]
    assert list(found)[:2] == ["tokens", "in_vocabulary"]
    unknown, literal = (
        bilm.predict_json({"tokens": ["he", word]})["forward_log_probabilities"][1]
        for word in ("zyxqvish", "<UNK>")
    )
    assert unknown == pytest.approx(literal)


def test_vectors(bilm_archive):
    """The expected vectors are those of `Elmo.from_archive`."""
    predictor = Predictor.from_path(bilm_archive, "elmo")
    elmo = Elmo.from_archive(bilm_archive)
    found = predictor.predict_batch_json([{"tokens": TOKENS}, {"sentence": "A"}])
    assert [x["tokens"] for x in found] == [TOKENS, ["A"]]
    for x in found:
        expected = elmo.embed(x["tokens"], layer="all")
        numpy.testing.assert_allclose(x["layers"], expected, atol=1e-5)


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("initial_state, precision", [("zero", "bf16"), ("carry", "fp32")])
def test_vectors_as_the_model_reads(bilm_archive, initial_state, precision):
    """The expected vectors are those of `Elmo` with the `initial_state` and the precision of the
    archive's model, and the log probabilities and substitutes those of `LanguageModel`, which
    tests/elmo/test_language_model.py compares with the oracle. The predictors do not change the
    model itself."""
    overrides = {"model.initial_state": initial_state, "model.precision": precision}
    archive = load_archive(bilm_archive, overrides=json.dumps(overrides))
    elmo, bilm = (Predictor.from_archive(archive, name) for name in ("elmo", "bilm"))
    vectors, scores = (
        kind.from_archive(bilm_archive, initial_state=initial_state, precision=precision)
        for kind in (Elmo, LanguageModel)
    )
    for _ in range(2):
        found = elmo.predict_json({"tokens": TOKENS})["layers"]
        numpy.testing.assert_array_equal(numpy.float32(found), vectors.embed(TOKENS, layer="all"))
        found = bilm.predict_json({"tokens": TOKENS})
        words = scores.substitutes(TOKENS, k=5)
        assert found["substitutes"] == [[word._asdict() for word in place] for place in words]
        expected = scores.score(TOKENS, base="e")
        numpy.testing.assert_array_equal(found["forward_log_probabilities"], expected.forward)
        numpy.testing.assert_array_equal(found["backward_log_probabilities"], expected.backward)
    assert all(parameter.requires_grad for parameter in archive.model.parameters())
