"""These tests compare the sampled softmax's loss and its gradients by blocks with the plain
formula."""

import pytest
import torch

from elmo_plugin.ops.softmax import reference_sampled_softmax_loss, sampled_softmax_loss
from elmo_plugin.ops.softmax import torch_ops as module
from tests.compare import assert_close

N, DIM, N_SAMPLES = 11, 5, 7


def arguments() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    targets = torch.tensor([3, 40, 8, 3, 5, 1, 99, 12, 5, 7, 0])  # several are among the samples
    samples = torch.tensor([40, 5, 17, 0, 33, 2, 21])
    hidden, weight = torch.randn(N, DIM), torch.randn(N + N_SAMPLES, DIM)
    return hidden, targets, samples, weight, torch.randn(N + N_SAMPLES)


@pytest.mark.parametrize("rows_at_once", [1, 4, N])
@pytest.mark.usefixtures("lstm_path")
def test_loss_and_gradients_are_the_formulas(monkeypatch, rows_at_once):
    """The oracle is the definition as one expression, differentiated by autograd in float64. The
    incoming gradient is not 1."""
    monkeypatch.setattr(module, "BLOCK_NUMBERS", rows_at_once * N_SAMPLES)
    hidden, targets, samples, weight, bias = arguments()
    own = [x.requires_grad_() for x in (hidden, weight, bias)]
    double = [x.detach().double().requires_grad_() for x in own]

    found = sampled_softmax_loss(hidden, targets, samples, weight, bias)
    expected = reference_sampled_softmax_loss(double[0], targets, samples, *double[1:])
    assert_close(found, expected, atol=1e-5, what="loss")
    gradients = torch.autograd.grad(0.3 * found, own)
    references = torch.autograd.grad(0.3 * expected, double)
    for name, gradient, reference in zip(("hidden", "weight", "bias"), gradients, references):
        assert_close(gradient, reference, atol=1e-5, what=f"gradient of {name}")


@pytest.mark.usefixtures("lstm_path")
def test_large_logits_do_not_overflow():
    """If one logit is far above all others, its row's loss is the distance to it."""
    hidden, weight = torch.ones(1, 1), torch.tensor([[0.0], [1e4], [-1e4]])
    found = sampled_softmax_loss(
        hidden, torch.tensor([0]), torch.tensor([1, 2]), weight, torch.zeros(3)
    )
    assert_close(found, 1e4, atol=1e-2, what="loss")
