"""All operators on all paths, compared with their equations."""

import importlib
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from elmo_plugin import ops
from elmo_plugin.modules import ProjectedLSTM, SampledSoftmax
from elmo_plugin.ops import backend, char_conv, lstm, softmax
from elmo_plugin.ops.linear import Linear
from elmo_plugin.ops.softmax import sampled_softmax_loss
from tests.compare import assert_close
from tests.conftest import HAS_INT8, needs_kernel, threads
from tests.ops.operator_cases import CASES, check_without_steps_or_rows

DTYPES = {
    "lstm": [torch.float32, torch.bfloat16],
    "softmax": [torch.float32, torch.bfloat16],
    "char_conv": [torch.float32],
}
FORMS = [
    (operator, dtype)
    for operator in (char_conv, lstm, softmax)
    for dtype in operator.DTYPES
    if dtype in backend.KERNEL_DTYPES or (dtype == torch.int8 and HAS_INT8)
]
"""The compiled kernels of this machine."""


@needs_kernel
def test_all_kernels_are_compared(monkeypatch):
    """Expected: each of them with PyTorch's operators, when the package is imported."""
    compare = Mock()
    monkeypatch.setattr(backend, "compare", compare)
    importlib.reload(ops)
    assert {(call.args[0], call.args[2]) for call in compare.call_args_list} == set(FORMS)


@pytest.mark.usefixtures("lstm_path")
@pytest.mark.parametrize("name, dtype", [(k, x) for k, own in DTYPES.items() for x in own])
def test_random_cases(name, dtype, fuzz, monkeypatch):
    """Expected: the equations in double precision, for values, gradients and NaN. See
    `operator_cases`."""
    case, operator = CASES[name]
    monkeypatch.setattr(softmax.torch_ops, "BLOCK_NUMBERS", 5000)  # several blocks of rows
    has_kernel = dtype in backend.KERNEL_DTYPES
    expected = operator.kernel if has_kernel else operator.torch_ops
    assert backend.fastest(operator, [torch.empty(1, dtype=dtype)]) is expected
    for random in fuzz.cases(10 if operator is lstm else 20):
        case(random, dtype)
    if operator is lstm:
        check_without_steps_or_rows(dtype)


def examples_of(operator, dtype):
    yield from operator.examples(dtype, torch.randn, 300)
    if operator is softmax:
        # One of four blocks of rows has a logit far above its first, and is computed again. The
        # number of threads decides how many of them share a task.
        hidden, weight, zeros = torch.randn(256, 64), 0.1 * torch.randn(512, 64), torch.zeros(512)
        hidden[:64, 0], weight[300, 0] = 60, 1
        yield hidden, zeros[:256].long(), weight.to(dtype), zeros, zeros[:256]


@needs_kernel
@pytest.mark.parametrize("operator, dtype", FORMS)
def test_the_number_of_threads_changes_no_bit(operator, dtype):
    """Property: results and gradients of the kernels have the same bits, except the gradient of the
    LSTM's bias, the last one, which is the sum of a part of each thread."""
    n_compared = -1 if operator is lstm and dtype != torch.int8 else None
    for given in examples_of(operator, dtype):
        results = []
        for n_threads in (1, 2, 3, 6):
            with threads(n_threads):
                results.append(operator.results(operator.kernel, *given)[:n_compared])
        assert all(all(map(torch.equal, results[0], other)) for other in results[1:])


LSTM = ProjectedLSTM(input_dim=20, dim=70, projection_dim=20, cell_clip=3.0, proj_clip=3.0)
SOFTMAX = SampledSoftmax(n_words=300, dim=20, n_negative_samples=10).eval()
LINEAR = Linear(20, 7)
CHARACTERS = torch.arange(40).view(2, 20)


def of_lstm(x: Tensor) -> Tensor:
    return LSTM(x.expand(2, 3, 2, 20), torch.zeros(2, 2, 70), torch.zeros(2, 2, 20))[0]


def of_softmax(x: Tensor) -> Tensor:
    return SOFTMAX(x, torch.tensor([1, 2]))


def likelihoods(x: Tensor) -> Tensor:
    with torch.no_grad():
        return SOFTMAX.log_probabilities(x, torch.tensor([1, 2]))


def of_linear(x: Tensor) -> Tensor:
    with torch.no_grad():
        return LINEAR(x)


@pytest.mark.parametrize("function", [of_lstm, of_softmax, likelihoods, of_linear])
def test_forward_mode_is_an_error(function):
    """By PyTorch's two interfaces: forward-mode derivatives are not implemented, and never zeros.
    Without a tangent it works."""
    for module in (LSTM, SOFTMAX, LINEAR):
        module.requires_grad_(False)
    x, tangent = torch.randn(2, 20), torch.ones(2, 20)
    expected = function(x)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(function, (x,), (tangent,))
    with forward_ad.dual_level():
        assert torch.equal(function(x), expected)
        with pytest.raises(NotImplementedError, match="forward-mode"):
            function(forward_ad.make_dual(x, tangent))


@pytest.mark.usefixtures("lstm_path")
@pytest.mark.parametrize("loss", [torch.sum, lambda x: x.square().sum()])
@pytest.mark.parametrize("function", [of_lstm, of_softmax])
def test_a_gradient_of_the_gradient_is_refused(function, loss):
    """The error also comes if the incoming gradient is a constant."""
    x = torch.randn(2, 20, requires_grad=True)
    with pytest.raises(NotImplementedError, match="create_graph"):
        torch.autograd.grad(loss(function(x)), x, create_graph=True)


@pytest.mark.usefixtures("lstm_path")
@pytest.mark.parametrize("top", [50.0, 1e4])
def test_a_logit_far_above_others(top):
    """Expected: the distance to it in each row, and the gradient of the equation in double
    precision. Exponentials against the first words' largest logit would overflow."""
    torch.manual_seed(0)
    n, samples = 70, torch.arange(300)
    hidden, weight, bias = torch.randn(n, 8), torch.randn(n + 300, 8), torch.randn(n + 300)
    bias[n + 250] = top
    results = []
    for function, dtype in (
        (sampled_softmax_loss, torch.float32),
        (softmax.reference_sampled_softmax_loss, torch.float64),
    ):
        own = [x.to(dtype).requires_grad_() for x in (hidden, weight, bias)]
        loss = function(own[0], torch.arange(n) + 300, samples, *own[1:])
        results.append([loss.detach(), *torch.autograd.grad(loss, own)])
    for found, expected in zip(*results):
        atol = 4e-6 * float(expected.abs().max())
        assert_close(found, expected, atol=atol, what="loss or gradient")
