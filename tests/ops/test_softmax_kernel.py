"""The compiled kernel of the softmax's loss compared with its equation."""

from random import Random

import pytest
import torch
from torch import Tensor

from elmo_plugin.ops import backend
from elmo_plugin.ops import softmax as module
from elmo_plugin.ops.softmax import (
    log_likelihoods,
    reference_sampled_softmax_loss,
    sampled_softmax_loss,
    softmax_loss,
)
from tests.compare import assert_close
from tests.conftest import needs_kernel, threads

pytestmark = needs_kernel
PRECISIONS = pytest.mark.parametrize("dtype", sorted(backend.KERNEL_DTYPES, key=str))
# The largest error of a gradient as a share of its largest number. Factors in bf16 have 8 bits, and
# terms of a sum may cancel.
BOUNDS = {torch.float32: 4e-6, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def only_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.torch_ops, "losses", None)


def random_case(random: Random, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Arguments of `sampled_softmax_loss`: every kind of shape, and accidental hits."""
    torch.manual_seed(random.randrange(1000))
    n, n_samples = random.choice([1, 9, 64, 65, 300]), random.choice([1, 7, 128, 129, 1000])
    dim = random.choice([1, 5, 32, 70, 128])
    targets, samples = torch.randint(2 * n_samples, (n,)), torch.randperm(2 * n_samples)[:n_samples]
    weight = (2 * dim**-0.5 * torch.randn(n + n_samples, dim)).to(dtype)
    hidden = torch.randn(n, dim).to(dtype).float()  # so that logits differ by fp32's rounding alone
    return hidden, targets, samples, weight, torch.randn(n + n_samples)


def assert_gradients_close(
    found: Tensor, own: list[Tensor], expected: Tensor, double: list[Tensor], dtype: torch.dtype
) -> None:
    """Compare the gradients of two losses, of which the expected one is in double precision."""
    pairs = zip(torch.autograd.grad(found, own), torch.autograd.grad(expected, double))
    for name, (gradient, reference) in zip(("hidden", "weight", "bias"), pairs):
        atol = BOUNDS[dtype] * float(reference.abs().max()) + 1e-7
        assert_close(gradient.float(), reference, atol=atol, what=f"gradient of {name}")


def tracked(arguments: tuple[Tensor, ...], *, precise: bool = False) -> list[Tensor]:
    """The arguments that have gradients, in double precision if `precise`."""
    hidden, _, _, weight, bias = arguments
    return [(x.double() if precise else x.clone()).requires_grad_() for x in (hidden, weight, bias)]


@PRECISIONS
def test_random_shapes(fuzz, dtype):
    """Expected: the equation in double precision, with the same weights, and its gradients by
    autograd, times the incoming gradient of 0.3."""
    for random in fuzz.cases(40):
        arguments = random_case(random, dtype)
        targets, samples = arguments[1:3]
        own, double = tracked(arguments), tracked(arguments, precise=True)
        found = sampled_softmax_loss(own[0], targets, samples, *own[1:])
        assert type(found.grad_fn).__name__ == "_LossBackward"
        expected = reference_sampled_softmax_loss(double[0], targets, samples, *double[1:])
        assert_close(found, expected, atol=1e-5, rtol=1e-6, what="loss")
        assert_gradients_close(0.3 * found, own, 0.3 * expected, double, dtype)


@PRECISIONS
def test_the_full_softmax(fuzz, dtype):
    """Expected: PyTorch's cross entropy of all logits, in double precision."""
    for random in fuzz.cases(10):
        hidden, _, _, weight, bias = random_case(random, dtype)
        targets = torch.randint(len(weight), (len(hidden),))
        own, double = (
            tracked((hidden, targets, targets, weight, bias), precise=p) for p in (False, True)
        )
        found = softmax_loss(own[0], targets, *own[1:])
        logits = double[0] @ double[1].T + double[2]
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        assert_close(found, losses.sum(), atol=1e-5, rtol=1e-6, what="loss")
        of_rows = -log_likelihoods(hidden, targets, weight, bias)
        assert_close(of_rows, losses.detach(), atol=2e-5, what="losses of rows")
        assert_gradients_close(found, own, losses.sum(), double, dtype)


@PRECISIONS
def test_the_number_of_threads_changes_no_bit(fuzz, dtype):
    """Property: loss and gradients have the same bits, also without a gradient."""
    for random in fuzz.cases(5):
        arguments = random_case(random, dtype)
        results = []
        for n_threads in (1, 2, 3):
            own = tracked(arguments)
            with threads(n_threads):
                loss = sampled_softmax_loss(own[0], *arguments[1:3], *own[1:])
                with torch.no_grad():
                    assert torch.equal(sampled_softmax_loss(*arguments), loss)
            results.append([loss, *torch.autograd.grad(loss, own)])
        assert all(map(torch.equal, results[0], results[1]))
        assert all(map(torch.equal, results[0], results[2]))


@PRECISIONS
def test_a_block_that_is_computed_again_changes_no_bit_of_another(dtype):
    """Property: loss and gradients have the same bits for any number of threads, which decides how
    many of the four blocks of rows share a task. One of them has a logit far above its first."""
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(256, 64), 0.1 * torch.randn(512, 64), torch.zeros(512)
    hidden[:64, 0], weight[300, 0] = 60, 1
    results = []
    for n_threads in (1, 2, 4):
        own = [hidden.clone().requires_grad_(), weight.to(dtype).requires_grad_()]
        with threads(n_threads):
            softmax_loss(own[0], torch.zeros(256, dtype=torch.long), own[1], bias).backward()
        results.append([x.grad for x in own])
    assert all(map(torch.equal, results[0], results[1]))
    assert all(map(torch.equal, results[0], results[2]))


@pytest.mark.parametrize("top", [50.0, 1e4])
def test_a_logit_far_above_those_of_the_first_tile(top):
    """Expected: the equation in double precision. Exponentials against the first tile's largest
    logit would overflow."""
    torch.manual_seed(0)
    n, n_samples = 70, 300
    weight, bias = torch.randn(n + n_samples, 8), torch.randn(n + n_samples)
    bias[n + 250] = top
    hidden, targets, samples = torch.randn(n, 8), torch.arange(n) + n_samples, torch.arange(300)
    arguments = hidden, targets, samples, weight, bias
    own, double = tracked(arguments), tracked(arguments, precise=True)
    found = sampled_softmax_loss(own[0], targets, samples, *own[1:])
    expected = reference_sampled_softmax_loss(double[0], targets, samples, *double[1:])
    assert_close(found, expected, atol=0, rtol=1e-6, what="loss")
    pairs = zip(torch.autograd.grad(found, own), torch.autograd.grad(expected, double))
    for gradient, reference in pairs:
        atol = BOUNDS[torch.float32] * float(reference.abs().max())
        assert_close(gradient, reference, atol=atol, what="gradient")


@PRECISIONS
@pytest.mark.parametrize("place", ["hidden", "weight", "bias"])
def test_nan_stays_nan(dtype, place):
    """By the definition of a NaN: a loss with it is NaN, and so are the gradients of its row."""
    arguments = random_case(Random(3), dtype)
    own = tracked(arguments)
    with torch.no_grad():
        own[("hidden", "weight", "bias").index(place)][-1] = torch.nan
    loss = sampled_softmax_loss(own[0], *arguments[1:3], *own[1:])
    d_hidden, *_ = torch.autograd.grad(loss, own)
    assert loss.isnan() and d_hidden[-1].isnan().all()


def test_a_gradient_of_the_gradient_is_refused():
    """Expected: the error of all gradients written by hand."""
    arguments = random_case(Random(0), torch.float32)
    own = tracked(arguments)
    loss = sampled_softmax_loss(own[0], *arguments[1:3], *own[1:])
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        torch.autograd.grad(loss, own, create_graph=True)
