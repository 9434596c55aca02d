"""
Random cases of the operators, compared with their equations. For the Triton kernels in Triton's
interpreter they are a program, because the interpreter is chosen when a kernel is defined:

    TRITON_INTERPRET=1 python -m tests.ops.operator_cases KERNEL SEED NUMBER
"""

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend, char_conv, lstm, softmax
from elmo_plugin.ops.char_conv import max_of_convolutions
from elmo_plugin.ops.char_conv.reference import reference_max_of_convolutions
from elmo_plugin.ops.lstm import LSTMWeights, lstm_scan, reference_lstm
from elmo_plugin.ops.lstm import triton_ops as of_lstm
from elmo_plugin.ops.softmax import (
    log_likelihoods,
    reference_sampled_softmax_loss,
    sampled_softmax_loss,
    softmax_loss,
)
from elmo_plugin.ops.softmax import triton_ops as of_softmax
from tests.as_on_a_gpu import as_on_a_gpu
from tests.compare import cosine

Results = list[Tensor]

BF16 = 2.0**-5
"""What bf16's results may differ by, as a share of the largest: products round what they multiply,
and the kernels' gates, m and probabilities are stored in bf16."""

EDGE = 1e-5
"""Rounding may move a number that is so near to its bound across it, which changes gradients."""


class DistanceFromBounds(TorchFunctionMode):
    """The least distance of a clipped number from its bound."""

    least = torch.inf

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.clamp and args[0].numel():
            self.least = min(self.least, float((args[0].detach().abs() - args[2]).abs().min()))
        return func(*args, **(kwargs or {}))


def with_gradients(
    function: Callable[..., Any], *tensors: Tensor, upstream: Tensor | None = None
) -> tuple[Results, Results]:
    """The results of a function, and the gradients of a weighted sum of the first."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    results = function(*leaves)
    results = [results] if isinstance(results, Tensor) else list(results)
    first = results[0]
    if upstream is None:
        upstream = torch.linspace(-1, 1, first.numel()).view_as(first)
    (first * upstream.to(first)).sum().backward()
    return [x.detach() for x in results], [x.grad for x in leaves if x.grad is not None]


def compare(found: Results, expected: Results, bound: float) -> None:
    """Compare with a bound that is a share of the largest finite number, and at least absolute. In
    bf16, the cosine is at least 0.995, too."""
    for x, y in zip(found, expected, strict=True):
        x, finite = x.to(y.dtype), y[y.isfinite()]
        largest = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
        assert torch.equal(x.isnan(), y.isnan()), "NaN in other places"
        assert torch.equal(x.isinf(), y.isinf()), "infinity in other places"
        difference = float((x - y)[y.isfinite()].abs().max()) if finite.numel() else 0.0
        assert difference <= bound * largest, f"a difference of {difference:g} at {largest:g}"
        if BF16 <= bound < torch.inf and finite.any() and finite.numel() > 1:
            near = cosine(x[y.isfinite()], finite)
            assert near >= 0.995, f"a cosine of {near:g}"


def lstm_case(random: Random, dtype: torch.dtype) -> bool:
    """
    Expected: the equation in double precision with the same weights. In fp32 values differ by at
    most 2e-6 and gradients by 1e-5. Returns whether there was a case.
    """
    torch.manual_seed(random.randrange(10_000))
    dim, n_steps = random.choice([1, 7, 64, 65, 130, 1030]), random.choice([1, 2, 3, 5])
    n_inputs = random.choice([1, 5, 64])
    n_rows = random.choice([1, 1, 2, 2, 3, 5, random.randint(6, 70)])
    projection_dim = random.choice([dim, 3, 20, 70])
    sizes = sorted((random.randint(0, n_rows) for _ in range(n_steps)), reverse=True)
    batch_sizes = random.choice([sizes, None])
    clips = [random.choice([None, 0.1, 0.3]) for _ in range(2)]
    shapes = [(n_inputs, 4 * dim), (projection_dim, 4 * dim), (4 * dim,), (dim, projection_dim)]
    weights = [torch.randn(2, *shape) / shape[0] ** 0.5 for shape in shapes]
    weights = [w if w.dim() == 2 else w.to(dtype).float() for w in weights]
    if projection_dim == dim:
        weights.pop()
    inputs = torch.randn(2, n_steps, n_rows, n_inputs).to(dtype).float()
    cell, hidden = (torch.randn(2, n_rows, n).clamp(-0.1, 0.1) for n in (dim, projection_dim))
    hidden = hidden.to(dtype).float()

    def scan(lstm_of: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
        def run(x: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor, *w_p: Tensor) -> Any:
            state = cell.to(x.dtype), hidden.to(x.dtype)
            matrices = [w.to(dtype) for w in (w_x, w_h, *w_p)]
            of = LSTMWeights(matrices[0], matrices[1], b, *(matrices[2:] or [None]), *clips)
            return lstm_of(x, *state, of, batch_sizes)

        return run

    exact = [x.double() for x in (inputs, *weights)]
    with DistanceFromBounds() as distance:
        expected, expected_gradients = with_gradients(scan(reference_lstm, torch.float64), *exact)
    if dtype == torch.float32 and distance.least < EDGE:
        return False
    found, found_gradients = with_gradients(scan(lstm_scan, dtype), inputs, *weights)
    compare(found, expected, 2e-6 if dtype == torch.float32 else BF16)
    bound = 1e-5 if dtype == torch.float32 else torch.inf if distance.least < 0.01 else BF16
    compare(found_gradients, expected_gradients, bound)
    with torch.no_grad():
        compare(list(scan(lstm_scan, dtype)(inputs, *weights)), found, 1e-6)  # without a gradient
        inputs[random.randrange(2), 0, 0, 0] = random.choice([torch.nan, torch.inf, -torch.inf])
        expected = scan(reference_lstm, torch.float64)(*(x.double() for x in (inputs, *weights)))
        found = scan(lstm_scan, dtype)(inputs, *weights)
        compare(list(found), list(expected), 2e-6 if dtype == torch.float32 else BF16)
    return True


def random_lstm(random: Random) -> tuple[ProjectedLSTM, list[Tensor], list[int] | None]:
    """An LSTM in fp32, its inputs and its states, and batch sizes, for the tests of kernels in
    other types: every kind of shape, clip and length."""
    torch.manual_seed(random.randrange(1000))
    dim = random.choice([1, 7, 64, 65, 130])
    input_dim, projection_dim = random.choice([1, 5, 64, 100]), random.choice([dim, 3, 64, 70])
    clips = [random.choice([None, 0.3]) for _ in range(2)]
    sizes = {"input_dim": input_dim, "dim": dim, "projection_dim": projection_dim}
    lstm = ProjectedLSTM(**sizes, cell_clip=clips[0], proj_clip=clips[1])
    for parameter in lstm.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    n_steps, n_rows = random.choice([1, 2, 9, 140]), random.choice([1, 3, 16, 33, 40])
    lengths = sorted((random.randint(0, n_rows) for _ in range(n_steps)), reverse=True)
    lengths[0] = max(1, lengths[0])
    states = 0.3 * torch.randn(2, n_rows, dim), 0.2 * torch.randn(2, n_rows, projection_dim)
    inputs = torch.randn(2, n_steps, n_rows, input_dim)
    return lstm, [inputs, *states], random.choice([None, lengths])


def softmax_case(random: Random, dtype: torch.dtype) -> bool:
    """
    Expected: the equation in double precision with the same weights, or PyTorch's cross entropy of
    all logits; in fp32 the loss differs by at most 1e-6 of it, and gradients by 1e-5.
    """
    torch.manual_seed(random.randrange(10_000))
    n, n_samples = random.choice([1, 2, 17, 70]), random.choice([1, 5, 129, 1024, 1500, 3000])
    dim = random.choice([1, 7, 40, 128])
    scale = random.choice([0.1, 1, 5 if dtype == torch.float32 else 1])
    words = torch.randperm(4000)
    samples, targets = words[:n_samples], words[n_samples // 2 :][torch.randint(9, (n,))]
    hidden = (scale * torch.randn(n, dim)).to(dtype).float()
    # Logits of many dimensions are no larger than those of 20, whose rounding the bounds permit.
    weight = (min(1, 20 / dim) ** 0.5 * torch.randn(n + n_samples, dim)).to(dtype).float()
    arguments = hidden, weight, torch.randn(n + n_samples)
    all_words = torch.randint(len(weight), (n,))
    # The factors are numbers of bf16, and the compiled kernel rounds only probabilities, which
    # concerns gradients.
    rough = 1e-5 if dtype in backend.KERNEL_DTYPES else BF16
    bounds = (1e-6, 1e-5) if dtype == torch.float32 else (rough, BF16)

    def sampled(function: Any, dtype: torch.dtype) -> Callable[..., Tensor]:
        return lambda h, w, b: -function(h, targets, samples, w.to(dtype), b)

    def full(h: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return -F.cross_entropy(h @ w.T + b, all_words, reduction="sum")

    exact = [x.double() for x in arguments]
    reference = sampled(reference_sampled_softmax_loss, torch.float64)
    for function, equation in (
        (sampled(sampled_softmax_loss, dtype), reference),
        (lambda h, w, b: -softmax_loss(h, all_words, w.to(dtype), b), full),
    ):
        expected = with_gradients(equation, *exact)
        found = with_gradients(function, *arguments)
        for x, y, bound in zip(found, expected, bounds):
            compare(x, y, bound)
        with torch.no_grad():
            compare([function(*arguments)], found[0], 1e-6)
    of_rows = log_likelihoods(hidden, all_words, weight.to(dtype), arguments[2])
    compare([of_rows.sum()], found[0], 1e-5 if dtype == torch.float32 else BF16)
    random.choice(arguments)[-1] = torch.nan
    [loss], [d_hidden, *_] = with_gradients(function, *arguments)
    assert loss.isnan() and d_hidden[-1].isnan().all(), "NaN is lost"
    return True


def char_conv_case(random: Random, dtype: torch.dtype) -> bool:
    """
    Expected: `Conv1d` over the embedded characters in double precision, and its gradients by
    autograd, for usual widths and others, numbers of filters below and above a block, words of more
    characters than a byte counts, and words with and without padding. Windows that share a maximum
    read the same characters, so that their gradients are the same; a maximum that rounding may give
    to another window has none.
    """
    torch.manual_seed(random.randrange(10_000))
    n_characters, dim = random.choice([2, 262, 600]), random.choice([1, 16])
    n_words, length = random.choice([(0, 12), (1, 12), (3, 3), (40, 12), (3, 300)])
    n_characters = max(n_characters, length)  # or gradients sum over a long word, and cancel out
    characters = torch.randint(n_characters, (n_words, length))
    for word in characters[::2]:
        word[random.randrange(length) :] = n_characters - 1
    widths = [width for width in (1, 2, 3, 5, 7, 9, 12) if width <= length]
    sizes = [(random.choice(widths), random.choice([1, 63, 64, 100])) for _ in "abc"]
    weights = [x for w, n in sizes for x in (torch.randn(n, dim, w), torch.randn(n))]
    embedding = torch.randn(n_characters, dim)

    def by(function: Any) -> Callable[..., Tensor]:
        return lambda e, *of: function(characters, e, list(zip(of[::2], of[1::2])))

    exact = [x.double() for x in (embedding, *weights)]
    words = F.embedding(characters, exact[0]).transpose(1, 2)
    windows = [F.conv1d(words, w, b) for w, b in zip(exact[1::2], exact[2::2])]
    gaps = [x.amax(dim=2, keepdim=True) - x for x in windows]
    upstream = torch.randn(len(characters), sum(n for _, n in sizes))
    upstream[torch.cat([((x > 1e-9) & (x < 1e-4)).any(dim=2) for x in gaps], dim=1)] = 0
    fast, equation = by(max_of_convolutions), by(reference_max_of_convolutions)
    found = with_gradients(fast, embedding, *weights, upstream=upstream)
    expected = with_gradients(equation, *exact, upstream=upstream)
    compare(found[0] + found[1], expected[0] + expected[1], 1e-5)
    with torch.no_grad():
        compare([fast(embedding, *weights)], found[0], 0)
        embedding[random.randrange(n_characters)] = torch.nan
        compare([fast(embedding, *weights)], [equation(embedding, *weights)], 1e-5)
    return True


def check_without_steps_or_rows(dtype: torch.dtype) -> None:
    """Expected: the initial state as the last one, and gradients of zeros."""
    for n_steps, n_rows in ((0, 3), (2, 0)):
        shapes = (2, n_steps, n_rows, 5), (2, 5, 28), (2, 3, 28), (2, 28), (2, 7, 3)
        leaves = [torch.ones(shape, requires_grad=True) for shape in shapes]
        x, w_x, w_h, b, w_p = leaves
        weights = LSTMWeights(w_x.to(dtype), w_h.to(dtype), b, w_p.to(dtype), 3.0, 3.0)
        state = torch.ones(2, n_rows, 7), torch.ones(2, n_rows, 3)
        outputs, *last = lstm_scan(x, *state, weights)
        assert outputs.shape == (2, n_steps, n_rows, 3) and all(map(torch.equal, last, state))
        outputs.sum().backward()
        assert not any(leaf.grad is None or leaf.grad.any() for leaf in leaves)


def round_to_nearest(patch: pytest.MonkeyPatch) -> None:
    """Let Triton's interpreter round to bf16 as a GPU does. It cuts off the bits, which makes
    numbers too small by 0.3 % on average, and the self-test finds that."""
    from triton.runtime import interpreter

    convert = interpreter._convert_float

    def rounded(x: Any, dtype: Any, to: Any, mode: Any) -> Any:
        if (str(dtype), str(to)) != ("fp32", "bf16"):
            return convert(x, dtype, to, mode)
        numbers = torch.from_numpy(np.ascontiguousarray(x).view(np.float32))
        return numbers.to(torch.bfloat16).view(torch.uint16).numpy().reshape(x.shape)

    patch.setattr(interpreter, "_convert_float", rounded)


CASES = {
    "lstm": (lstm_case, lstm),
    "softmax": (softmax_case, softmax),
    "char_conv": (char_conv_case, char_conv),
}


def main(kernel: str, dtype: torch.dtype, seed: str, number: str) -> None:
    case, operators = CASES[kernel]
    with pytest.MonkeyPatch.context() as patch:
        as_on_a_gpu(patch)
        round_to_nearest(patch)
        patch.setattr(backend, "KERNEL_DTYPES", frozenset())
        patch.setattr(of_lstm, "DEVICE_ROWS", 64)  # several blocks of steps or rows
        patch.setattr(of_softmax, "DEVICE_BLOCK_NUMBERS", 20_000)
        chosen = backend.fastest(operators, [torch.empty(0, dtype=dtype)])
        assert chosen.__name__.endswith("triton_ops"), chosen
        if kernel == "lstm":
            check_without_steps_or_rows(dtype)
        n_compared = n_tried = 0
        while n_compared < int(number):
            n_tried += 1
            name = f"{seed} {n_tried}"
            try:
                n_compared += case(Random(name), dtype)
            except AssertionError as error:
                sys.exit(f"{kernel}, case {name!r}, {dtype}: {error}")
        print(f"{kernel}, {dtype}: {n_compared} cases")


if __name__ == "__main__":
    for dtype in torch.float32, torch.bfloat16:
        main(sys.argv[1], dtype, *sys.argv[2:])
