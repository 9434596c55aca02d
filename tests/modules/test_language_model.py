"""The language model in plain PyTorch, compared with the oracle in NumPy."""

import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLMWithSoftmax
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from tests import oracle
from tests.compare import assert_close
from tests.random_bilm import CHAR_CNN, LSTM, arrays_of, randomize

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "ran", "."]
SENTENCES = [["the", "dog", "ran", "."], ["dog"], ["the", "ran"]]
OPTIONS = {"lstm": LSTM, "char_cnn": CHAR_CNN}


def language_model(**settings: object) -> BiLMWithSoftmax:
    torch.manual_seed(0)
    options = BiLMOptions.from_dict(OPTIONS, source="test")
    model = BiLMWithSoftmax(options, n_words=len(WORDS), **settings)
    randomize(model)
    return model


def batch(model: BiLMWithSoftmax) -> tuple[torch.Tensor, torch.Tensor]:
    """Characters and targets of `SENTENCES`."""
    n, length = max(map(len, SENTENCES)), model.bilm.max_characters_per_token
    tokens = torch.zeros(len(SENTENCES), n, length, dtype=torch.long)
    targets = torch.zeros(len(SENTENCES), n, dtype=torch.long)
    for row, sentence in enumerate(SENTENCES):
        for place, word in enumerate(sentence):
            tokens[row, place] = 1 + torch.tensor(oracle.characters(word, length))
            targets[row, place] = WORDS.index(word)
    return tokens, targets


def expected_log_p(model: BiLMWithSoftmax, folder) -> list[list[float]]:
    """For each sentence log p of w_1 .. w_n, the end; then of the beginning, w_1 .. w_n."""
    arrays, found = arrays_of(model.bilm, folder, model.softmax), []
    for sentence in SENTENCES:
        tokens, zero = ["<S>", *sentence, "</S>"], oracle.zero_state(OPTIONS)
        (forward, backward), _ = oracle.distributions(arrays, OPTIONS, tokens, zero)
        ids, n = [WORDS.index(word) for word in tokens], range(len(sentence) + 1)
        found.append([*forward[n, ids[1:]], *backward[n, ids[:-1]]])
    return found


def test_log_probabilities(tmp_path):
    """Of each word and boundary, in both directions, from states of zeros."""
    model = language_model(initial_state="zero").eval()
    with torch.no_grad():
        hidden, targets = model.read_sentences(*batch(model))
        log_p = model.log_probabilities(hidden, targets)
        sums = model.negative_log_likelihoods(hidden, targets)
    for row, expected in enumerate(expected_log_p(model, tmp_path)):
        n = len(SENTENCES[row]) + 1
        found = [*log_p[0][:n, row].tolist(), *log_p[1][1 : n + 1, row].tolist()]
        assert_close(torch.tensor(found), torch.tensor(expected), atol=1e-5, what=f"row {row}")
    for direction, total in zip(log_p, sums):
        assert_close(-direction.sum(), total, atol=1e-4, what="negative log likelihood")


def test_the_warm_state_is_that_of_rows_at_the_start_of_a_sentence():
    """By hand: of the three rows of a window that continues another one, the first begins with
    `<S>`, so that its state is the mean. A misspelled state is an error, here without AllenNLP."""
    model = language_model().train()
    words = torch.cat([model.bilm.boundaries, torch.randint(1, 200, (2, 10))])
    inputs, targets = torch.tensor([[0, 2, 0], [2, 0, 3], [3, 3, 0]]), torch.ones(3, 3).long()
    for starts in (True, False):
        before = model.carried.state
        steps = inputs, targets, inputs, targets
        model.read_window(torch.full((3,), starts), words, *steps)
    for found, expected in zip(model.bilm.warm_state(1), before, strict=True):
        assert_close(found, expected[:, :, :1], atol=1e-6, what="warm state")
    with pytest.raises(InputError, match=r"initial_state: expected one of .* found 'wram'"):
        language_model(initial_state="wram")


def test_a_window_continues_the_one_before():
    """Property: two windows of rows have the log probabilities of one window twice as long."""
    model = language_model(initial_state="zero").eval()
    torch.manual_seed(1)
    words = torch.randint(1, 200, (5, model.bilm.max_characters_per_token))
    inputs, targets = torch.randint(5, (2, 3, 8)), torch.randint(len(WORDS), (2, 3, 8))
    targets[0, 1, 6:] = targets[1, 1, 6:] = IGNORE
    starts, none = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)

    def read(starts: torch.Tensor, steps: slice) -> torch.Tensor:
        window = (x[..., steps] for pair in zip(inputs, targets) for x in pair)
        with torch.no_grad():
            return torch.stack(model.log_probabilities(*model.read_window(starts, words, *window)))

    whole = read(starts, slice(0, 8))
    halves = read(starts, slice(0, 4)), read(none, slice(4, 8))
    assert_close(torch.cat(halves, dim=1), whole, atol=1e-5, what="log probabilities")


def test_it_learns_without_another_library():
    """Property: a model that is trained on one window predicts its words better."""
    model = language_model(n_negative_samples=3).train()
    words, (forward, backward) = torch.randint(1, 200, (5, 10)), torch.randint(5, (2, 3, 8))
    targets, starts = torch.randint(len(WORDS), (2, 3, 8)), torch.ones(3, dtype=torch.bool)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        read = model.read_window(starts, words, forward, targets[0], backward, targets[1])
        loss = sum(model.negative_log_likelihoods(*read))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
