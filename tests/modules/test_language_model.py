"""Windows of the language model in plain PyTorch. `tests/elmo/test_language_model.py` and
`tests/plugin/models/test_bilm_model.py` compare its log probabilities with the oracle in NumPy."""

import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLMWithSoftmax
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from tests.compare import assert_close
from tests.random_bilm import CHAR_CNN, LSTM, randomize

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "ran", "."]


def language_model(**settings: object) -> BiLMWithSoftmax:
    torch.manual_seed(0)
    options = BiLMOptions.from_dict({"lstm": LSTM, "char_cnn": CHAR_CNN}, source="test")
    model = BiLMWithSoftmax(options, n_words=len(WORDS), **settings)
    randomize(model)
    return model


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
