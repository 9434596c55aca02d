"""The adaptive softmax against its definition in NumPy."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from elmo_plugin.modules import AdaptiveSoftmax, adaptive_softmax
from elmo_plugin.modules.sampled_softmax import IGNORE
from tests.compare import assert_close

N_WORDS, DIM, CUTOFFS = 50, 16, [5, 20]


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def oracle(softmax: AdaptiveSoftmax, hidden: np.ndarray) -> np.ndarray:
    """Grave et al. (2017): the head holds the frequent words and one entry for each cluster; a
    cluster's word has the product of the cluster's probability and its own within it."""
    arrays = {name: array.detach().numpy() for name, array in softmax.named_parameters()}
    head = log_softmax(hidden @ arrays["levels.head.weight"].T + arrays["levels.head.bias"])
    found = [head[:, : CUTOFFS[0]]]
    for k in range(len(CUTOFFS)):
        small = hidden @ arrays[f"levels.tail.{k}.0.weight"].T
        within = log_softmax(small @ arrays[f"levels.tail.{k}.1.weight"].T)
        found.append(head[:, CUTOFFS[0] + k, None] + within)
    return np.concatenate(found, axis=1)


def made() -> tuple[AdaptiveSoftmax, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(n_words=N_WORDS, dim=DIM, cutoffs=CUTOFFS)
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter)
    targets = torch.tensor([[0, 4, 5], [49, IGNORE, 19], [IGNORE, 20, 3]])
    return softmax, torch.randn(3, 3, DIM), targets


@contextmanager
def kept_for_gradient() -> Iterator[list[int]]:
    """The sizes in bytes of the tensors that autograd keeps."""
    kept: list[int] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.nbytes)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        yield kept


@pytest.mark.parametrize("numbers", [1, 90, 10**6])  # of rows at once: 1, 3, and all
def test_log_probabilities_are_the_definitions(monkeypatch, numbers):
    """Expected: the oracle; 0 where there is nothing to predict; the loss is minus their sum, the
    same in training and in evaluation."""
    monkeypatch.setattr(adaptive_softmax, "CHUNK_NUMBERS", numbers)
    softmax, hidden, targets = made()
    log_p = oracle(softmax, hidden.view(-1, DIM).numpy())
    flat = targets.flatten().numpy()
    expected = np.where(flat == IGNORE, 0, log_p[np.arange(9), flat.clip(0)]).reshape(3, 3)
    assert_close(softmax.log_probabilities(hidden, targets), expected, atol=1e-5, what="log p")
    for mode in (True, False):
        loss = softmax.train(mode)(hidden, targets)
        assert_close(loss, -expected.sum(), atol=1e-4, what="loss")


def test_probabilities_of_all_words():
    """Expected: the oracle, whose probabilities sum to 1."""
    softmax, hidden, _ = made()
    expected = oracle(softmax, hidden.view(-1, DIM).numpy()).reshape(3, 3, N_WORDS)
    found = softmax.logits(hidden)
    assert_close(found, expected, atol=1e-5, what="log p")
    assert_close(found.exp().sum(dim=-1), np.ones((3, 3)), atol=1e-5, what="sum")


@pytest.mark.parametrize("numbers", [1, 90, 10**6])
def test_gradients_are_those_of_all_rows_at_once(monkeypatch, numbers):
    """Expected: PyTorch's adaptive softmax itself, on the places that have a target."""
    monkeypatch.setattr(adaptive_softmax, "CHUNK_NUMBERS", numbers)
    softmax, hidden, targets = made()
    hidden.requires_grad_()
    real = targets != IGNORE
    expected = -softmax.levels(hidden[real], targets[real]).output.sum()
    arguments = {"hidden": hidden, **dict(softmax.named_parameters())}
    for name, found, gradient in zip(
        arguments,
        torch.autograd.grad(softmax(hidden, targets), list(arguments.values())),
        torch.autograd.grad(expected, list(arguments.values())),
    ):
        assert_close(found, gradient, atol=1e-5, what=f"gradient of {name}")


def test_training_keeps_no_logits():
    """Property: what is kept for the gradient does not depend on the number of words."""
    kept_of = []
    for n_words in (50, 5000):
        softmax = AdaptiveSoftmax(n_words=n_words, dim=DIM, cutoffs=[5, 20])
        with kept_for_gradient() as kept:
            softmax(torch.randn(50, DIM, requires_grad=True), torch.arange(50))
        kept_of.append(sum(kept))
    assert 0 < kept_of[0] == kept_of[1]


def test_under_autocast():
    """Expected: what it is without, for the hidden vectors are rounded before it."""
    softmax, hidden, targets = made()
    hidden = hidden.bfloat16().requires_grad_()
    expected = softmax(hidden.float(), targets)
    with torch.autocast("cpu", torch.bfloat16):
        found = softmax(hidden, targets)
    assert found.dtype == torch.float32 and torch.equal(found, expected)
    gradients = [torch.autograd.grad(x, list(softmax.parameters())) for x in (found, expected)]
    assert all(map(torch.equal, *gradients))


def test_nothing_to_predict_costs_nothing():
    """By definition; and it can be differentiated."""
    softmax, hidden, targets = made()
    hidden.requires_grad_()
    loss = softmax(hidden, torch.full_like(targets, IGNORE))
    loss.backward()
    assert loss == 0 and not hidden.grad.any()


@pytest.mark.parametrize("cutoffs", [[], [5, 5], [20, 5], [0], [50], [60]])
def test_cutoffs_that_make_no_clusters(cutoffs):
    """The message names the key, what is expected and what was found."""
    with pytest.raises(ValueError, match=r"adaptive_cutoffs: expected one or more .* 50 words"):
        AdaptiveSoftmax(n_words=N_WORDS, dim=DIM, cutoffs=cutoffs)


def test_more_clusters_than_the_vectors_can_shrink():
    """The message says how short the last one's would be."""
    with pytest.raises(ValueError, match="adaptive_cutoffs: expected so few"):
        AdaptiveSoftmax(n_words=N_WORDS, dim=DIM, cutoffs=[5, 10, 20])
