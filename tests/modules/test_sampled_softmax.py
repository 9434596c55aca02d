from decimal import Decimal, getcontext
from unittest.mock import patch

import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.modules import SampledSoftmax, sampled_softmax
from elmo_plugin.modules.sampled_softmax import IGNORE, expected_count, log_uniform_sample
from tests.compare import assert_close
from tests.oracle import log_softmax

N_WORDS, DIM = 30, 5


def log_uniform(n_words: int) -> np.ndarray:
    """Return TensorFlow's distribution, p(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    k = np.arange(n_words)
    return np.log((k + 2) / (k + 1)) / np.log(n_words + 1)


def softmax_of(n_negative_samples: int | None) -> SampledSoftmax:
    torch.manual_seed(0)
    softmax = SampledSoftmax(n_words=N_WORDS, dim=DIM, n_negative_samples=n_negative_samples)
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter)
    return softmax


def hidden_and_targets() -> tuple[torch.Tensor, torch.Tensor]:
    """Return hidden vectors and targets, shape `(2, 4)`. Three have no target, and the others vary
    in rank."""
    targets = torch.tensor([[0, IGNORE, 29, 1], [7, IGNORE, 1, IGNORE]])
    return torch.randn(2, 4, DIM, generator=torch.Generator().manual_seed(1)), targets


def test_draws_are_those_of_one_after_the_other():
    """NumPy draws word after word until 6 are different. Compared are how often each of 12 words is
    among them and the number of draws, within 4 standard errors."""
    random, p, n_runs = np.random.default_rng(0), log_uniform(12), 2000
    among, tries = np.zeros((2, n_runs, 12)), np.zeros((2, n_runs))
    torch.manual_seed(0)
    for run in range(n_runs):
        draws = random.choice(12, size=200, p=p)
        firsts = np.sort(np.unique(draws, return_index=True)[1])[:6]
        among[0, run, draws[firsts]], tries[0, run] = 1, firsts[-1] + 1
        words, n_tries = log_uniform_sample(6, 12)
        among[1, run, words], tries[1, run] = 1, n_tries
    for found in (among, tries):
        error = np.sqrt(found.var(axis=1).sum(axis=0) / n_runs)
        assert (np.abs(np.subtract(*found.mean(axis=1))) < 4 * error).all()


@pytest.mark.parametrize(("n_samples", "n_words"), [(1, 2), (100, 5000), (99, 100), (8192, 20000)])
def test_words_are_different_and_in_the_vocabulary(n_samples, n_words):
    """That holds by definition, also if nearly all words are drawn, of which the rarest come
    late."""
    words, n_tries = log_uniform_sample(n_samples, n_words)
    assert words.shape == (n_samples,) == words.unique().shape
    assert 0 <= words.min() and words.max() < n_words
    assert n_tries >= n_samples


def test_expected_count_of_the_rarest_words_is_exact():
    """The expected counts are those of TensorFlow's formula, 1 - (1 - p) ** tries, in 50 digits.
    The rarest of a million words has a p of 7e-8, which float32 would lose."""
    getcontext().prec = 50
    n_words, n_tries = 10**6, 8192
    for k in (0, 1, 1000, n_words - 1):
        p = (Decimal(k + 2) / Decimal(k + 1)).ln() / Decimal(n_words + 1).ln()
        found = expected_count(torch.tensor([k]), n_tries, n_words)
        assert_close(found[0], float(1 - (1 - p) ** n_tries), atol=0, rtol=1e-6, what=f"word {k}")


@pytest.mark.parametrize("n_samples", [1, 8, 29])
@pytest.mark.usefixtures("lstm_path")
def test_sampled_loss_is_its_formula(n_samples):
    """NumPy computes the expected loss for each target over itself and the samples other than it,
    with each logit less the logarithm of its word's expected count. The samples are those of the
    same seed."""
    softmax = softmax_of(n_samples).double()
    hidden, targets = hidden_and_targets()
    torch.manual_seed(2)
    samples, n_tries = log_uniform_sample(n_samples, N_WORDS)
    expected_counts = 1 - (1 - log_uniform(N_WORDS)) ** n_tries
    weight, bias = (x.detach().numpy() for x in (softmax.weight, softmax.bias))
    loss = 0.0
    for h, target in zip(hidden.double().numpy().reshape(-1, DIM), targets.flatten().tolist()):
        if target != IGNORE:
            words = [target, *(k for k in samples.tolist() if k != target)]
            logits = weight[words] @ h + bias[words] - np.log(expected_counts[words])
            loss += np.log(np.exp(logits).sum()) - logits[0]
    torch.manual_seed(2)
    found = softmax(hidden.double(), targets)
    # The counts are float32 for any type of logits.
    assert_close(found, loss, atol=0, rtol=1e-6, what="loss")


def test_sampled_gradients_are_the_slopes():
    """The expected slopes are differences of the loss itself, in float64 and with the same
    samples."""
    softmax, (hidden, targets) = softmax_of(6).double(), hidden_and_targets()

    def loss(hidden, weight, bias):
        torch.manual_seed(2)
        values = {"weight": weight, "bias": bias}
        return torch.func.functional_call(softmax, values, (hidden, targets))

    arguments = (hidden.double().requires_grad_(), softmax.weight, softmax.bias)
    assert torch.autograd.gradcheck(loss, arguments)


@pytest.mark.parametrize("chunk", [1, 3 * N_WORDS, 2**24])
@pytest.mark.usefixtures("lstm_path")
def test_full_softmax_is_the_oracles(chunk, monkeypatch):
    """The expected values are the oracle's log softmax over all words, for any size of chunks and
    any integer type, and minus their sum for the loss, also in training without samples. Places
    without a target have 0. `operator_cases` compares the loss and its gradients with PyTorch's
    cross entropy."""
    monkeypatch.setattr(sampled_softmax, "CHUNK_NUMBERS", chunk)
    softmax = softmax_of(4).eval()
    hidden, targets = hidden_and_targets()
    with patch.object(softmax, "logits", wraps=softmax.logits) as logits:
        found = softmax.log_probabilities(hidden, targets.int())
    most = max(len(call.args[0]) for call in logits.call_args_list)
    assert most == max(1, min(chunk // N_WORDS, targets.numel()))  # as the constant promises
    arrays = {
        "softmax/W": softmax.weight.detach().double().numpy(),
        "softmax/b": softmax.bias.detach().double().numpy(),
    }
    for h, target, log_p in zip(hidden.view(-1, DIM), targets.flatten(), found.flatten()):
        expected = 0.0 if target == IGNORE else log_softmax(arrays, h.double().numpy())[target]
        assert_close(log_p, expected, atol=1e-5, what=f"log probability of word {target}")
    exact = softmax_of(None)
    exact.load_state_dict(softmax.state_dict())
    for module in (softmax, exact.train()):
        assert_close(module(hidden, targets.int()), -found.sum(), atol=1e-5, what="loss")


@pytest.mark.usefixtures("lstm_path")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_samples", [N_WORDS - 1, N_WORDS, 8192])
def test_with_no_more_words_than_samples_training_is_exact(caplog, n_samples, sparse):
    """The expected loss and gradients, which are dense, are those without samples. One line says
    so. With a word more than samples, training is sampled as before."""
    torch.manual_seed(0)
    sizes = {"n_words": N_WORDS, "dim": DIM}
    softmax = SampledSoftmax(**sizes, n_negative_samples=n_samples, sparse_gradients=sparse)
    exact = SampledSoftmax(**sizes, n_negative_samples=None)
    exact.load_state_dict(softmax.state_dict())
    is_sampled = n_samples < N_WORDS
    assert (softmax.n_negative_samples is not None) == is_sampled
    results = []
    for module in (softmax, exact):
        loss = module.train()(*hidden_and_targets())
        results.append([loss, *torch.autograd.grad(loss, list(module.parameters()))])
    assert [x.is_sparse for x in results[0]] == [False] + [is_sampled and sparse] * 2
    assert is_sampled or all(map(torch.equal, *results))
    assert len(caplog.messages) == (not is_sampled)
    assert is_sampled or f"because the vocabulary has {N_WORDS} words" in caplog.text


def test_training_with_all_words_saves_no_logits():
    """Property: what is saved for the gradient, which is the gradient itself, is not larger than
    the parameters and the hidden vectors. All logits would be 12 times as much."""
    softmax = SampledSoftmax(n_words=300, dim=DIM, n_negative_samples=None)
    hidden, targets = torch.randn(100, DIM, requires_grad=True), torch.arange(100)
    saved = []
    save = torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.nbytes) or x, iter)
    with save:
        softmax(hidden, targets)
    parameters = sum(x.nbytes for x in softmax.parameters())
    assert 0 < sum(saved) <= parameters + hidden.nbytes + targets.nbytes


@pytest.mark.parametrize("n_samples", [None, 4])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.usefixtures("lstm_path")
def test_places_without_a_target_do_not_count(n_samples, training):
    """Hidden vectors without a target change neither loss nor gradient. Without any target, or any
    vector, the loss is 0 and the gradient is not NaN."""
    softmax, (hidden, targets) = softmax_of(n_samples).train(training), hidden_and_targets()
    losses = []
    for number in (1.0, 1e6):
        hidden[targets == IGNORE] = number
        torch.manual_seed(2)
        losses.append(softmax(hidden, targets))
    assert torch.equal(*losses)
    for n in (0, 2):
        softmax.zero_grad()
        hidden = torch.ones(n, DIM, requires_grad=True)
        loss = softmax(hidden, torch.full((n,), IGNORE))
        loss.backward()
        assert loss.item() == 0.0
        assert not softmax.weight.grad.any() and not hidden.grad.any()


@pytest.mark.parametrize("target", [-1, N_WORDS])
@pytest.mark.parametrize("call", ["forward", "log_probabilities"])
@pytest.mark.parametrize("grad", [True, False])
def test_a_target_that_is_no_word_is_refused(target, call, grad):
    """As in `torch.nn.functional.cross_entropy`: no number from the end of the vocabulary."""
    softmax = softmax_of(None).requires_grad_(grad)
    with torch.set_grad_enabled(grad), pytest.raises(IndexError, match="out of"):
        getattr(softmax, call)(torch.randn(2, DIM), torch.tensor([0, target]))
    with pytest.raises(InputError, match=r"^targets: expected the shape \(2, 3\), of hidden"):
        getattr(softmax, call)(torch.randn(2, 3, DIM), torch.zeros(3, 2))


def test_initial_values_are_bilm_tfs():
    """The expected distribution is N(0, 1 / P), with a bias of zeros."""
    torch.manual_seed(0)
    softmax = SampledSoftmax(n_words=2000, dim=16, n_negative_samples=10)
    assert_close(softmax.weight.std(), 0.25, atol=0.004, what="standard deviation")
    assert not softmax.bias.any()


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, True])
def test_a_number_of_samples_that_cannot_be_drawn_is_refused(n_samples):
    """The message names the number."""
    with pytest.raises(ValueError, match=f"n_negative_samples: .*{str(n_samples).lower()}"):
        softmax_of(n_samples)
