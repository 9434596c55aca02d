"""
Random cases of the Triton kernels in Triton's interpreter, as a program, because the interpreter is
chosen when a kernel is defined:

    TRITON_INTERPRET=1 python -m tests.ops.triton_cases KERNEL DTYPE SEED NUMBER
"""

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_plugin.ops import backend, lstm, softmax
from elmo_plugin.ops.lstm import LSTMWeights, lstm_scan, reference_lstm
from elmo_plugin.ops.lstm import triton_ops as of_lstm
from elmo_plugin.ops.softmax import reference_sampled_softmax_loss, sampled_softmax_loss
from elmo_plugin.ops.softmax import triton_ops as of_softmax
from tests.conftest import as_on_a_gpu

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


def with_gradients(function: Callable[..., Any], *tensors: Tensor) -> tuple[Results, Results]:
    """The results of a function, and the gradients of a weighted sum of the first."""
    leaves = [x.detach().requires_grad_() for x in tensors]
    results = function(*leaves)
    results = [results] if isinstance(results, Tensor) else list(results)
    first = results[0]
    (first * torch.linspace(-1, 1, first.numel()).view_as(first).to(first)).sum().backward()
    return [x.detach() for x in results], [x.grad for x in leaves if x.grad is not None]


def compare(found: Results, expected: Results, bound: float) -> None:
    """Compare with a bound that is a share of the largest finite number, and at least absolute."""
    for x, y in zip(found, expected, strict=True):
        x, finite = x.to(y.dtype), y[y.isfinite()]
        largest = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
        assert torch.equal(x.isnan(), y.isnan()), "NaN in other places"
        assert torch.equal(x.isinf(), y.isinf()), "infinity in other places"
        difference = float((x - y)[y.isfinite()].abs().max()) if finite.numel() else 0.0
        assert difference <= bound * largest, f"a difference of {difference:g} at {largest:g}"


def lstm_case(random: Random, dtype: torch.dtype) -> bool:
    """
    Expected: the equation in double precision with the same weights. In fp32 values differ by at
    most 1e-6 and gradients by 1e-5. Returns whether there was a case.
    """
    torch.manual_seed(random.randrange(10_000))
    dim, n_steps = random.choice([1, 7, 64, 130, 1030]), random.choice([1, 2, 3, 5])
    n_rows = random.choice([1, 1, 2, 2, 3, 5, random.randint(6, 70)])
    projection_dim = random.choice([dim, 3, 20, 70])
    sizes = sorted((random.randint(0, n_rows) for _ in range(n_steps)), reverse=True)
    batch_sizes = random.choice([sizes, None])
    clips = [random.choice([None, 0.1, 0.3]) for _ in range(2)]
    shapes = [(5, 4 * dim), (projection_dim, 4 * dim), (4 * dim,), (dim, projection_dim)]
    weights = [torch.randn(2, *shape) / shape[0] ** 0.5 for shape in shapes]
    weights = [w if w.dim() == 2 else w.to(dtype).float() for w in weights]
    if projection_dim == dim:
        weights.pop()
    inputs = torch.randn(2, n_steps, n_rows, 5).to(dtype).float()
    cell, hidden = (
        torch.randn(2, n_rows, dim).clamp(-0.1, 0.1),
        torch.randn(2, n_rows, projection_dim),
    )
    hidden = hidden.clamp(-0.1, 0.1).to(dtype).float()

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
    compare(found, expected, 1e-6 if dtype == torch.float32 else BF16)
    bound = 1e-5 if dtype == torch.float32 else torch.inf if distance.least < 0.01 else BF16
    compare(found_gradients, expected_gradients, bound)
    with torch.no_grad():
        compare(list(scan(lstm_scan, dtype)(inputs, *weights)), found, 1e-6)  # without a gradient
        inputs[random.randrange(2), 0, 0, 0] = random.choice([torch.nan, torch.inf, -torch.inf])
        expected = scan(reference_lstm, torch.float64)(*(x.double() for x in (inputs, *weights)))
        found = scan(lstm_scan, dtype)(inputs, *weights)
        compare(list(found), list(expected), 1e-6 if dtype == torch.float32 else BF16)
    return True


def softmax_case(random: Random, dtype: torch.dtype) -> bool:
    """
    Expected: the equation in double precision with the same weights; in fp32 the loss differs by at
    most 1e-6 of it, and gradients by 1e-5.
    """
    torch.manual_seed(random.randrange(10_000))
    n, n_samples = random.choice([1, 2, 17, 70]), random.choice([1, 5, 1024, 1500, 3000])
    dim, scale = (
        random.choice([1, 7, 40]),
        random.choice([0.1, 1, 5 if dtype == torch.float32 else 1]),
    )
    words = torch.randperm(4000)
    samples, targets = words[:n_samples], words[n_samples // 2 :][torch.randint(9, (n,))]
    hidden = (scale * torch.randn(n, dim)).to(dtype).float()
    weight = torch.randn(n + n_samples, dim).to(dtype).float()
    bias = torch.randn(n + n_samples)

    def loss(function: Any, dtype: torch.dtype) -> Callable[..., Tensor]:
        return lambda h, w, b: -function(h, targets, samples, w.to(dtype), b)

    arguments = hidden, weight, bias
    exact = (x.double() for x in arguments)
    expected = with_gradients(loss(reference_sampled_softmax_loss, torch.float64), *exact)
    found = with_gradients(loss(sampled_softmax_loss, dtype), *arguments)
    for x, y, bound in zip(found, expected, (1e-6, 1e-5)):
        compare(x, y, bound if dtype == torch.float32 else BF16)
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


CASES = {"lstm": (lstm_case, lstm), "softmax": (softmax_case, softmax)}


def main(kernel: str, dtype_name: str, seed: str, number: str) -> None:
    case, operators = CASES[kernel]
    dtype = getattr(torch, dtype_name)
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
    main(*sys.argv[1:])
