"""These tests run the language model on batches of sentences."""

from typing import Any

import numpy as np
import pytest
import torch
from allennlp.data import Batch, Instance

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.text.characters import words_to_characters
from tests import oracle
from tests.compare import assert_close
from tests.plugin.models.running_text import (
    OPTIONS,
    TEXT,
    batch,
    language_model,
    log_probabilities,
    windows,
)
from tests.random_bilm import CHAR_CNN, arrays_of, oracle_state

SENTENCES = [*TEXT[0], [], *TEXT[1]]
READER = BiLMDatasetReader(max_characters_per_token=CHAR_CNN["max_characters_per_token"])


def instances(sentences: list[list[str]]) -> list[Instance]:
    found = [READER.text_to_instance(sentence) for sentence in sentences]
    for instance in found:
        READER.apply_token_indexers(instance)
    return found


def batch_of(model: BiLMModel, sentences: list[list[str]]) -> dict[str, Any]:
    batch = Batch(instances(sentences))
    batch.index_instances(model.vocab)
    return batch.as_tensor_dict()


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_sentences_are_the_oracles(initial_state, tmp_path):
    """The oracle reads each sentence alone, step by step: `w_1 .. w_n </S>` forwards and, in the
    order of the text, `<S> w_1 .. w_n` backwards. The loss is the mean over both, and perplexities
    weigh each token the same over batches of 2, 3, 1 and 2 sentences."""
    model = language_model(initial_state=initial_state).eval()
    arrays = arrays_of(model.bilm, tmp_path, model.softmax)
    start = oracle.zero_state(OPTIONS)
    if initial_state == "warm":
        start = oracle_state(model.bilm.warm_state(1), 0)
    expected = [log_probabilities(arrays, OPTIONS, [s], start)[0] for s in SENTENCES]
    for begin, end in ((0, 2), (2, 5), (5, 6), (6, 8)):
        output = model(**batch_of(model, SENTENCES[begin:end]))
        for row, (forward, backward) in enumerate(expected[begin:end]):
            n = len(forward)
            assert output["mask"][row].sum() == n and output["mask"][row, :n].all()
            for name, log_p in (("forward", forward), ("backward", backward[::-1])):
                found = output[f"{name}_log_probabilities"][row]
                assert_close(found[:n], log_p, atol=1e-10, what=f"{name}, {begin + row}")
                assert not found[n:].any()
        loss = -np.concatenate([p for both in expected[begin:end] for p in both]).mean()
        assert_close(output["loss"], loss, atol=1e-10, what="loss")
    forward, backward = (np.concatenate(p) for p in zip(*expected))
    for name, log_p in (
        ("perplexity", np.concatenate([forward, backward])),
        ("forward_perplexity", forward),
        ("backward_perplexity", backward),
    ):
        assert_close(model.get_metrics()[name], np.exp(-log_p.mean()), atol=0, rtol=1e-6, what=name)


def test_carry_continues_from_the_row_above(tmp_path):
    """The oracle's state of each row is carried through batches of 3, 1, 2 and 4 sentences. Rows
    that are missing in a batch keep their state, and a new row starts from zeros."""
    model = language_model(initial_state="carry").eval()
    arrays = arrays_of(model.bilm, tmp_path, model.softmax)
    states = [oracle.zero_state(OPTIONS) for _ in range(4)]
    for k, sentences in enumerate(
        (SENTENCES[:3], SENTENCES[3:4], SENTENCES[4:6], SENTENCES[5:8] + SENTENCES[:1])
    ):
        output = model(**batch_of(model, sentences))
        for row, sentence in enumerate(sentences):
            # The last boundary is read too, which windows of running text read at the beginning of
            # the next sentence.
            bounded = ["<S>", *sentence, "</S>"]
            _, state = oracle.sentence(arrays, OPTIONS, bounded, states[row])
            expected, _ = log_probabilities(arrays, OPTIONS, [sentence], states[row])
            n = len(sentence) + 1
            found = output["forward_log_probabilities"][row, :n]
            assert_close(found, expected[0], atol=1e-10, what=f"batch {k}, row {row}")
            found = output["backward_log_probabilities"][row, :n]
            assert_close(found, expected[1][::-1], atol=1e-10, what=f"batch {k}, row {row}")
            states[row] = state


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_a_batch_leaves_nothing_behind(initial_state):
    """With a fixed state the same batch gives bit-identical numbers again, and changes no tensor of
    the model."""
    model = language_model(initial_state=initial_state).eval()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    first, again = (model(**batch_of(model, SENTENCES)) for _ in range(2))
    for name in ("loss", "forward_log_probabilities", "backward_log_probabilities"):
        assert torch.equal(first[name], again[name])
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_each_direction_has_one_softmax(monkeypatch):
    """The loss is the mean of the log probabilities, and is not computed once more."""
    model = language_model(initial_state="zero").eval()
    calls = []
    whole = model.softmax.log_probabilities
    monkeypatch.setattr(model.softmax, "log_probabilities", lambda *a: calls.append(1) or whole(*a))
    output = model(**batch_of(model, SENTENCES))
    assert len(calls) == 2
    total = sum(output[f"{d}_log_probabilities"].sum() for d in ("forward", "backward"))
    assert_close(output["loss"], -total / (2 * output["mask"].sum()), atol=1e-10, what="loss")


def test_the_three_initial_states_differ():
    """If the states were equal, the tests of each of them would show nothing."""
    losses = set()
    for initial_state in ("zero", "warm", "carry"):
        model = language_model(initial_state=initial_state).eval()
        batch = batch_of(model, SENTENCES)
        losses.update(model(**batch)["loss"].item() for _ in range(2))
    assert len(losses) == 3  # carry's first batch starts from zero


def test_sentences_can_be_trained_on():
    """Training returns only a loss, whose gradient is that of the loss times the batch's tokens
    over its rows: 3 + 1 targets in 2 rows."""
    model = language_model()
    batch = batch_of(model, [["the", "dog"], []])
    output = model(**batch)
    assert set(output) == {"loss"}
    (found,) = torch.autograd.grad(output["loss"], model.softmax.bias)
    loss = model.eval()(**batch)["forward_log_probabilities"].sum()
    loss = -(loss + model(**batch)["backward_log_probabilities"].sum()) / (2 * 4)
    (expected,) = torch.autograd.grad(loss, model.softmax.bias)
    assert_close(found, expected * 4 / 2, atol=1e-12, what="gradient of the softmax's bias")


def test_human_readable_output():
    """AllenNLP's own method of prediction returns lists that are as long as each sentence with its
    end or its beginning."""
    model = language_model().eval()
    for sentence, output in zip(SENTENCES, model.forward_on_instances(instances(SENTENCES))):
        assert output["tokens"] == sentence
        assert "mask" not in output
        for name in ("forward_log_probabilities", "backward_log_probabilities"):
            assert isinstance(output[name], list)
            assert len(output[name]) == len(sentence) + 1
            assert all(log_p < 0 for log_p in output[name])


def test_an_evaluation_starts_afresh():
    """Under `carry` the same sentences have the same loss in each evaluation, which ends when the
    trainer asks for its metrics and resets them. Within one, a batch starts in the state after the
    batch before."""
    model = language_model(initial_state="carry").eval()
    losses = []
    for _ in range(2):
        losses.append([model(**batch_of(model, SENTENCES))["loss"].item() for _ in range(2)])
        model.get_metrics(reset=True)
    assert losses[0] == losses[1]
    assert losses[0][0] != losses[0][1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["sentences", "windows"])
def test_words_of_another_length(kind, training):
    """The expected loss is that of words of the model's length. Words that were cut to fewer
    characters are an error, because the model would read others in their place; windows of words
    with fewer characters are one at once, before a longer word comes."""
    losses = []
    for length in (10, 12):
        model = language_model().train(training)
        losses.append(model(**_of_length(model, kind, length))["loss"].item())
    assert losses[0] == losses[1]
    message = r"up to 8 bytes.*cut to 3.*max_characters_per_token"
    if kind == "windows":
        message = "dataset_reader: max_characters_per_token: expected at least 10, .* found 5$"
    with pytest.raises(ValueError, match=message):
        model(**_of_length(model, kind, 5))


def _of_length(model: BiLMModel, kind: str, length: int) -> dict[str, Any]:
    """The inputs of a model with words of another number of characters, in the form of ids."""
    if kind == "sentences":
        inputs = batch_of(model, SENTENCES)
        rows = [torch.from_numpy(words_to_characters(words, length)) for words in SENTENCES]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).long()
        inputs["source"]["elmo"]["elmo_tokens"] = tokens
        return inputs
    window, *_ = windows(TEXT, 5)
    text = [bytes(int(c) - 1 for c in row if c < 257).decode() for row in window["words"]]
    marks = {257: "<S>", 258: "</S>"}
    words = [marks.get(int(row[1]), word) for row, word in zip(window["words"], text)]
    return batch({**window, "words": torch.from_numpy(words_to_characters(words, length))})


def test_an_indexer_of_another_type():
    """The error names the key and what was found."""
    model = language_model()
    inputs = batch_of(model, SENTENCES)
    inputs["source"] = {"tokens": {"tokens": inputs["targets"]}}
    with pytest.raises(InputError, match=r'token_indexers: .* type "elmo" .*found tokens'):
        model(**inputs)
