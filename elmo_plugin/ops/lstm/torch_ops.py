"""
The recurrence of `ProjectedLSTM` with a hand-written gradient, by PyTorch's operators, for machines
and types without the compiled kernel. Symbols and shapes are those of `ProjectedLSTM`, and
`reference_lstm` is the equation.

All inputs are multiplied in one matrix product before the first step, and all weight gradients in
one after the last step; only the recurrent part is inside the loop. Matrix products with bfloat16
weights are computed in bfloat16, everything else in float32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.linear import Weights, batched_matmul, is_on_cpu
from elmo_plugin.ops.lstm.reference import scan_gradients
from elmo_plugin.ops.no_double_backward import no_double_backward
from elmo_plugin.ops.private_torch import is_graph_kept

BLOCK = 128
"""Number of rows of a product: they fit in a core's caches and suffice for full speed."""

DEVICE_BLOCK = 4096
"""The same on other devices, where fewer and larger products are faster."""


def scan(
    inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The scan without a gradient. The arguments are `LSTMWeights` and batch sizes."""
    w_x, w_h, bias, w_p, cell_clip, proj_clip, batch_sizes = arguments
    # bf16 rounds to 1e-3 anyway, and training does not need the exact tanh.
    tanh = torch.tanh if w_h.dtype == inputs.dtype else quick_tanh
    outputs = inputs.new_zeros(*inputs.shape[:3], h_0.size(-1))
    c, h = c_0.clone(), h_0.clone()
    m = torch.empty_like(c)
    # In blocks of steps, so that only the outputs need memory in proportion to the text.
    n_rows = BLOCK if is_on_cpu(inputs) else DEVICE_BLOCK
    n_block = max(1, min(n_rows // max(1, inputs.size(2)), len(batch_sizes)))
    gate_buffer = inputs.new_empty(2, n_block * inputs.size(2), bias.size(-1))
    for first in range(0, len(batch_sizes), n_block):
        sizes = batch_sizes[first : first + n_block]
        block = inputs[:, first : first + n_block, : sizes[0]]
        gates = _input_gates(block, w_x, bias, gate_buffer)
        for t, n in enumerate(sizes):
            g = gates[:, t, :n]
            batched_matmul(h[:, :n], w_h, out=g, add=True)
            _step(g, c[:, :n], c[:, :n], m[:, :n], h[:, :n], w_p, cell_clip, proj_clip, tanh)
            outputs[:, first + t, :n] = h[:, :n]
    return outputs, c, h


def _input_gates(inputs: Tensor, weight: Weights, bias: Tensor, buffer: Tensor) -> Tensor:
    """x W_x + b of many steps, shape `(2, T, B, 4D)`, written to `buffer`, `(2, >= T * B, 4D)`."""
    x = inputs.reshape(2, -1, inputs.size(-1))
    gates = buffer[:, : x.size(1)]
    n_block = BLOCK if is_on_cpu(x) else x.size(1)
    for rows, out in zip(x.split(n_block, dim=1), gates.split(n_block, dim=1)):
        batched_matmul(rows, weight, out=out).add_(bias[:, None])
    return gates.view(*inputs.shape[:3], gates.size(-1))


def _step(
    gates: Tensor,
    c_before: Tensor,
    c: Tensor,
    m: Tensor,
    h: Tensor,
    projection_weight: Weights | None,
    cell_clip: float | None,
    proj_clip: float | None,
    tanh: Callable[..., Tensor],
) -> None:
    """
    Compute one time step of n rows in place. `gates`, shape `(2, n, 4D)`, is replaced by its
    activations. The results are written to `c`, the new memory cell, and `m` = sigmoid(o) *
    tanh(c), both of shape `(2, n, D)`, and to `h`, shape `(2, n, P)`.
    """
    dim = c.size(-1)
    gates[..., :dim].sigmoid_()
    tanh(gates[..., dim : 2 * dim], out=gates[..., dim : 2 * dim])
    gates[..., 2 * dim :].sigmoid_()
    i, j, f, o = gates.chunk(4, dim=-1)
    torch.mul(f, c_before, out=c)
    c.addcmul_(i, j)
    if cell_clip is not None:
        c.clamp_(-cell_clip, cell_clip)
    tanh(c, out=m).mul_(o)
    if projection_weight is None:
        h.copy_(m)
        return
    batched_matmul(m, projection_weight, out=h)
    if proj_clip is not None:
        h.clamp_(-proj_clip, proj_clip)


def _last(states: Tensor, batch_sizes: Sequence[int]) -> Tensor:
    """
    Each row after its last step, shape `(2, B, ...)`, out of the states before the first step and
    after each, shape `(2, T + 1, B, ...)`. An index would make a GPU wait for the CPU.
    """
    firsts = [0, *reversed(batch_sizes), states.size(2)]  # the rows that end, latest step first
    return torch.cat(
        [
            states[:, t, firsts[k] : firsts[k + 1]]
            for k, t in enumerate(reversed(range(states.size(1))))
        ],
        dim=1,
    )


class Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        w_x, w_h, bias, w_p, cell_clip, proj_clip, batch_sizes = arguments
        n_steps, n_rows = inputs.shape[1:3]
        gates = inputs.new_empty(2, n_steps * n_rows, bias.size(-1))
        gates = _input_gates(inputs, w_x, bias, gates)
        # Writing zeros costs as much as a small step, and is needed only if rows are skipped.
        fresh = c_0.new_zeros if min(batch_sizes, default=0) < n_rows else c_0.new_empty
        # Index 0 holds the initial state, so step t starts from c[:, t] and h[:, t].
        c = fresh(2, n_steps + 1, *c_0.shape[1:])
        h = fresh(2, n_steps + 1, *h_0.shape[1:])
        m = fresh(2, n_steps, *c_0.shape[1:])
        c[:, 0], h[:, 0] = c_0, h_0
        for t, n in enumerate(batch_sizes):
            g = gates[:, t, :n]
            batched_matmul(h[:, t, :n], w_h, out=g, add=True)
            written = (c[:, t + 1, :n], m[:, t, :n], h[:, t + 1, :n])
            _step(g, c[:, t, :n], *written, w_p, cell_clip, proj_clip, quick_tanh)
        ctx.save_for_backward(inputs, w_x, w_h, w_p, gates, c, h, m)
        ctx.clips = cell_clip, proj_clip
        ctx.batch_sizes = batch_sizes
        last_c, last_h = _last(c, batch_sizes), _last(h, batch_sizes)
        ctx.mark_non_differentiable(last_c, last_h)
        return h[:, 1:].clone(), last_c, last_h

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, w_x, w_h, w_p, gates, c, h, m = ctx.saved_tensors
        cell_clip, proj_clip = ctx.clips
        if is_graph_kept():
            gates = gates.clone()
        d_h = grads[0].clone(memory_format=torch.contiguous_format)
        d_c = torch.zeros_like(c[:, 0])
        # The activations are replaced by their gradients, in the precision of the products.
        same = w_h.dtype == gates.dtype
        d_gates = gates if same else torch.empty_like(gates, dtype=w_h.dtype)
        n_later = 0
        for t, n in reversed(list(enumerate(ctx.batch_sizes))):
            d_m = d_h_t = d_h[:, t, :n]
            if n_later:
                later = d_gates[:, t + 1, :n_later]
                batched_matmul(later, w_h.transpose(1, 2), out=d_h_t[:, :n_later], add=True)
            if w_p is not None:
                if proj_clip is not None:
                    # A clipped number equals the bound and has no gradient.
                    d_h_t.mul_(h[:, t + 1, :n].abs() < proj_clip)
                d_m = batched_matmul(d_h_t, w_p.transpose(1, 2))
            _step_backward(
                gates[:, t, :n], c[:, t, :n], c[:, t + 1, :n], d_m, d_c[:, :n], cell_clip
            )
            gates[:, t, n:].zero_()
            d_h[:, t, n:].zero_()
            if not same:
                d_gates[:, t].copy_(gates[:, t])
            n_later = n

        d_bias = gates.sum(dim=(1, 2))
        return scan_gradients(ctx, inputs, h[:, :-1], m, d_gates, d_h, d_bias, w_x)


def _step_backward(
    gates: Tensor, c_before: Tensor, c: Tensor, d_m: Tensor, d_c: Tensor, cell_clip: float | None
) -> None:
    """
    Compute the gradient of `_step` in place from `d_m`, the gradient of m. In `gates`, shape
    `(2, n, 4D)`, the activations are replaced by their gradients; in `d_c`, shape `(2, n, D)`, the
    gradient of the new memory cell by that of the old one.
    """
    i, j, f, o = gates.chunk(4, dim=-1)
    tanh_c = quick_tanh(c, out=torch.empty_like(c))
    d_o = torch.mul(d_m, tanh_c)
    d_c.addcmul_(d_m.mul_(o), 1 - tanh_c.square_())
    if cell_clip is not None:
        d_c.mul_(c.abs() < cell_clip)
    o.mul_(d_o.mul_(1 - o))
    d_i, d_f = d_c * j, d_c * c_before
    j.square_().neg_().add_(1).mul_(d_c).mul_(i)
    i.mul_(d_i.mul_(1 - i))
    d_c.mul_(f)
    f.mul_(d_f.mul_(1 - f))


def quick_tanh(x: Tensor, out: Tensor) -> Tensor:
    """tanh as 2 sigmoid(2x) - 1, within 2e-7; on a CPU `torch.tanh` takes six times as long."""
    if is_on_cpu(x):
        torch.mul(x, 2, out=out).sigmoid_()
        return torch.add(out.new_tensor(-1.0), out, alpha=2, out=out)
    return torch.tanh(x, out=out)
