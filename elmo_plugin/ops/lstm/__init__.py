"""
The recurrence of `ProjectedLSTM` with a hand-written gradient: `reference.py` is the equation,
`kernel.py` calls the compiled kernel, `triton_ops.py` is for NVIDIA's GPUs, and `torch_ops.py`
serves all other machines and types.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.backend import fastest, hint_to_build
from elmo_plugin.ops.linear import batched_matmul, is_on_cpu, pack_weights
from elmo_plugin.ops.lstm import kernel, torch_ops
from elmo_plugin.ops.lstm.kernel import quantize_lstm_weights
from elmo_plugin.ops.lstm.reference import LSTMWeights, Reading, reference_lstm, reference_step
from elmo_plugin.ops.private_torch import no_double_backward, no_forward_mode

__all__ = [
    "LSTMWeights",
    "lstm_scan",
    "pack_lstm_weights",
    "quantize_lstm_weights",
    "reference_lstm",
    "reference_step",
]

DTYPES = torch.float32, torch.bfloat16, torch.int8
"""The precisions of products of the kernels. int8 is for `quantize_lstm_weights`."""

_THIS = sys.modules[__name__]


def pack_lstm_weights(weights: LSTMWeights) -> LSTMWeights:
    """Pack the matrices of weights that do not change, for scans without a gradient."""
    if _operators(weights) is kernel:
        return kernel.pack_all(weights)
    return weights.map_matrices(lambda x, _: pack_weights(x))


def lstm_scan(
    inputs: Tensor,
    cell: Tensor,
    hidden: Tensor,
    weights: LSTMWeights,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """
    See `ProjectedLSTM.forward`. Tensors for the backward pass are kept only if a gradient is
    needed. The outputs have the type of `hidden`, also for inputs that autocast has rounded.
    """
    no_forward_mode(inputs, cell, hidden, *weights)
    if batch_sizes is None:
        batch_sizes = [inputs.size(2)] * inputs.size(1)
    reading = Reading(inputs, cell.detach(), hidden.detach(), weights, batch_sizes)
    operators = _operators(weights)
    if operators is kernel:
        x, c, h = (x.float().contiguous() for x in reading[:3])
        reading = Reading(x, c, h, weights, batch_sizes)
    elif cell.dtype != torch.float32:
        operators = torch_ops  # Triton's memory cells are in fp32
    if operators is torch_ops and is_on_cpu(inputs) and not torch.compiler.is_compiling():
        hint_to_build(sum(batch_sizes))
    if torch.is_grad_enabled() and any(
        getattr(x, "requires_grad", False) for x in (inputs, *weights)
    ):
        outputs, c, h = _Scan.apply(operators, *reading[:3], *weights, batch_sizes)
    else:
        outputs, c, h, *_ = operators.scan(reading)
    return outputs.to(hidden.dtype), c.to(cell.dtype), h.to(hidden.dtype)


def _operators(weights: LSTMWeights) -> Any:
    """The module with `scan` and `scan_backward` for weights, which may be packed."""
    is_packed = isinstance(weights.recurrent, kernel.KernelWeights)
    return kernel if is_packed else fastest(_THIS, weights.matrices())


class _Scan(torch.autograd.Function):
    """The scan of `operators`, a module of this folder, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, operators: Any, inputs: Tensor, cell: Tensor, hidden: Tensor, *others: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        *of_weights, ctx.batch_sizes = others
        weights = LSTMWeights(*of_weights)
        reading = Reading(inputs, cell, hidden, weights, ctx.batch_sizes)
        outputs, last_cell, last_hidden, *kept = operators.scan(reading, keep=True)
        ctx.operators, ctx.clips = operators, (weights.cell_clip, weights.proj_clip)
        ctx.save_for_backward(inputs, cell, hidden, *weights[:4], outputs, *kept)
        ctx.mark_non_differentiable(last_cell, last_hidden)
        return outputs, last_cell, last_hidden

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # read once, or gradient checkpointing refuses the second time
        inputs, cell, hidden, *of_weights = saved[:7]
        outputs, m, *kept = saved[7:]
        weights = LSTMWeights(*of_weights, *ctx.clips)
        reading = Reading(inputs, cell, hidden, weights, ctx.batch_sizes)
        d_gates, d_outputs, d_bias = ctx.operators.scan_backward(reading, grads[0], outputs, *kept)
        _, needs_inputs, _, _, *needs, _ = ctx.needs_input_grad
        dtype = weights.input.dtype
        d = _rows(d_gates, dtype)
        d_inputs = d_projection = None
        if needs_inputs:
            d_inputs = batched_matmul(d, weights.input.transpose(1, 2)).to(inputs.dtype)
            d_inputs = d_inputs.view_as(inputs)
        if LSTMWeights(*needs).projection:
            # Transposed, because the first factor is copied and d_outputs is smaller than m.
            d_projection = batched_matmul(_rows(d_outputs, dtype).transpose(1, 2), _rows(m, dtype))
            d_projection = d_projection.transpose(1, 2)
        h = torch.cat([hidden[:, None], outputs], dim=1)[:, :-1]
        # One product is faster than one for the inputs and one for h.
        sizes = [inputs.size(-1), h.size(-1)]
        both = torch.cat(
            [inputs, h], dim=-1, out=h.new_empty(*h.shape[:3], sum(sizes), dtype=dtype)
        )
        d_input, d_recurrent = batched_matmul(_rows(both, dtype).transpose(1, 2), d).split(sizes, 1)
        d_weights = LSTMWeights(d_input, d_recurrent, d_bias, d_projection, None, None)
        return None, d_inputs, None, None, *d_weights, None


def _rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows of all steps, shape `(2, T B, n)`, in the precision of the products."""
    return x.reshape(2, -1, x.size(-1)).to(dtype)


def examples(dtype: torch.dtype, random: Any, size: int) -> Iterator[tuple[Reading, torch.dtype]]:
    """Arguments of `results`: few numbers with clips, and 10,000 memory cells of `size` units."""
    n = 5_000 // size + 1
    # Of the few, no c or h is within 0.004 of its bound, where rounding would change whether it has
    # a gradient. Of many, some always are.
    few, many = (70, [3, 3, 2, 1], (0.58, 0.3)), (size, [n, n // 2 + 1], (None, None))
    given = torch.float32 if dtype == torch.int8 else dtype
    for dim, sizes, (cell_clip, proj_clip) in (few, many):
        w_x, w_h, w_p = (
            0.3 * random(2, *shape) for shape in ((5, 4 * dim), (6, 4 * dim), (dim, 6))
        )
        w_p *= (70 / dim) ** 0.5
        weights = LSTMWeights(w_x, w_h, 0.3 * random(2, 4 * dim), w_p, cell_clip, proj_clip)
        weights = weights.map_matrices(lambda x, _: x.to(given))
        n = sizes[0]
        x, cell, hidden = (
            0.3 * random(2, *shape) for shape in ((len(sizes), n, 5), (n, dim), (n, 6))
        )
        yield Reading(x, cell, hidden, weights, sizes), dtype


def results(operators: Any, reading: Reading, dtype: torch.dtype) -> Sequence[Tensor]:
    """The results of a scan and, except in int8, their gradients, to compare `operators`."""
    if dtype == torch.int8:
        quantize = quantize_lstm_weights if operators is kernel else LSTMWeights._make
        return operators.scan(reading._replace(weights=quantize(reading.weights)))[:3]
    outputs, c, h, *kept = operators.scan(reading, keep=True)
    gradients = operators.scan_backward(reading, outputs, outputs, *kept[1:])
    return [*operators.scan(reading)[:3], outputs, c, h, kept[0], *gradients]
