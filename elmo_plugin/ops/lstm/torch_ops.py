"""
The recurrence of `ProjectedLSTM` and its gradient by PyTorch's operators, for machines and types
without the compiled kernel. Symbols and shapes are those of `ProjectedLSTM`, and
`reference_lstm` is the equation.

All inputs are multiplied in one matrix product before the first step, and all weight gradients in
one after the last step; only the recurrent part is inside the loop. Matrix products with bfloat16
weights are computed in bfloat16, everything else in float32.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from elmo_plugin.ops.linear import batched_matmul, is_on_cpu
from elmo_plugin.ops.lstm.reference import LSTMWeights, Reading
from elmo_plugin.ops.private_torch import is_graph_kept

ROWS = 128
"""Number of rows of a product: they fit in a core's caches and suffice for full speed."""

DEVICE_ROWS = 4096
"""The same on other devices, where fewer and larger products are faster."""


def scan(reading: Reading, keep: bool = False) -> tuple[Tensor, ...]:
    """
    The outputs, and c and h of each row after its last step; see `ProjectedLSTM.forward`. With
    `keep`, m of every step follows, shape `(2, T, B, D)`, and what `scan_backward` needs: the
    activations of the gates and c of every step, shapes `(2, T, B, 4D)` and `(2, T, B, D)`.
    """
    inputs, cell, hidden, weights, batch_sizes = reading
    n_steps, n_rows = inputs.shape[1:3]
    # bf16 rounds to 1e-3 anyway, and training does not need the exact tanh.
    is_exact = not keep and weights.recurrent.dtype == inputs.dtype
    tanh = torch.tanh if is_exact else quick_tanh
    # Writing zeros costs as much as a small step, and is needed only if rows are skipped.
    fresh = hidden.new_zeros if min(batch_sizes, default=0) < n_rows else hidden.new_empty
    outputs = fresh(*inputs.shape[:3], hidden.size(-1))
    c, m = (fresh(2, n_steps if keep else 1, *cell.shape[1:]) for _ in range(2))
    if not keep:
        c[:, 0] = cell
        # In blocks of steps, so that only the outputs need memory in proportion to the text.
        n_steps = max(1, min(_n_rows(inputs) // max(1, n_rows), n_steps))
    buffer = inputs.new_empty(2, n_steps * n_rows, weights.bias.size(-1))
    c_before, h_before = cell, hidden
    for first in range(0, len(batch_sizes), max(1, n_steps)):
        sizes = batch_sizes[first : first + n_steps]
        block = inputs[:, first : first + n_steps, : n_rows if keep else sizes[0]]
        gates = _input_gates(block, weights, buffer)
        for t, n in enumerate(sizes):
            g, k = gates[:, t, :n], t if keep else 0
            batched_matmul(h_before[:, :n], weights.recurrent, out=g, add=True)
            h = outputs[:, first + t]
            _step(g, c_before[:, :n], c[:, k, :n], m[:, k, :n], h[:, :n], weights, tanh)
            c_before, h_before = c[:, k], h
    last_h = last_of_rows(hidden, outputs, batch_sizes)
    if not keep:
        return outputs, c[:, 0], last_h
    gates = buffer.view(*inputs.shape[:3], buffer.size(-1))
    return outputs, last_of_rows(cell, c, batch_sizes), last_h, m, gates, c


def _n_rows(x: Tensor) -> int:
    return ROWS if is_on_cpu(x) else DEVICE_ROWS


def _input_gates(inputs: Tensor, weights: LSTMWeights, buffer: Tensor) -> Tensor:
    """x W_x + b of many steps, shape `(2, T, B, 4D)`, written to `buffer`, `(2, >= T * B, 4D)`."""
    x = inputs.reshape(2, -1, inputs.size(-1))
    gates = buffer[:, : x.size(1)]
    n_rows = ROWS if is_on_cpu(x) else max(1, x.size(1))
    for rows, out in zip(x.split(n_rows, dim=1), gates.split(n_rows, dim=1)):
        batched_matmul(rows, weights.input, out=out).add_(weights.bias[:, None])
    return gates.view(*inputs.shape[:3], gates.size(-1))


def _step(
    gates: Tensor,
    c_before: Tensor,
    c: Tensor,
    m: Tensor,
    h: Tensor,
    weights: LSTMWeights,
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
    if weights.cell_clip is not None:
        c.clamp_(-weights.cell_clip, weights.cell_clip)
    tanh(c, out=m).mul_(o)
    if weights.projection is None:
        h.copy_(m)
        return
    batched_matmul(m, weights.projection, out=h)
    if weights.proj_clip is not None:
        h.clamp_(-weights.proj_clip, weights.proj_clip)


def last_of_rows(initial: Tensor, states: Tensor, batch_sizes: Sequence[int]) -> Tensor:
    """
    Each row after its last step, shape `(2, B, ...)`, out of the `initial` states and those after
    each step, shape `(2, T, B, ...)`. An index would make a GPU wait for the CPU.
    """
    firsts = [0, *reversed(batch_sizes), initial.size(1)]  # the rows that end, latest step first
    steps = [*reversed(states.unbind(1)), initial]
    ended = [x[:, a:b] for x, (a, b) in zip(steps, pairwise(firsts)) if a < b]
    return torch.cat(ended or [initial], dim=1)


def scan_backward(
    reading: Reading, d_outputs: Tensor, outputs: Tensor, gates: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """
    The gradients of the gates before their activations, shape `(2, T, B, 4D)`, of the outputs
    before their clip, shape `(2, T, B, P)`, and of the bias. `gates` and `c` are those that `scan`
    keeps.
    """
    _, cell, _, weights, batch_sizes = reading
    w_h, w_p = weights.recurrent, weights.projection
    if is_graph_kept():
        gates = gates.clone()
    d_h = d_outputs.clone(memory_format=torch.contiguous_format)
    d_c = torch.zeros_like(cell)
    # The activations are replaced by their gradients, in the precision of the products.
    same = w_h.dtype == gates.dtype
    d_gates = gates if same else torch.empty_like(gates, dtype=w_h.dtype)
    n_later = 0
    for t, n in reversed(list(enumerate(batch_sizes))):
        d_m = d_h_t = d_h[:, t, :n]
        if n_later:
            later = d_gates[:, t + 1, :n_later]
            batched_matmul(later, w_h.transpose(1, 2), out=d_h_t[:, :n_later], add=True)
        if w_p is not None:
            if weights.proj_clip is not None:
                # A clipped number equals the bound and has no gradient.
                d_h_t.mul_(outputs[:, t, :n].abs() < weights.proj_clip)
            d_m = batched_matmul(d_h_t, w_p.transpose(1, 2))
        c_before = c[:, t - 1] if t else cell
        _step_backward(
            gates[:, t, :n], c_before[:, :n], c[:, t, :n], d_m, d_c[:, :n], weights.cell_clip
        )
        gates[:, t, n:].zero_()
        d_h[:, t, n:].zero_()
        if not same:
            d_gates[:, t].copy_(gates[:, t])
        n_later = n
    return d_gates, d_h, gates.sum(dim=(1, 2))


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
