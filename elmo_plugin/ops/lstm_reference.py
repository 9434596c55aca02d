"""
The equation of `ProjectedLSTM`, and the part of its gradient that the compiled kernel and the
PyTorch version share.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.linear import batched_matmul


def reference_lstm(
    inputs: Tensor,
    memory: Tensor,
    output: Tensor,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    projection_weight: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition of `lstm_scan` and of the kernel."""

    def clip(x: Tensor, bound: float | None) -> Tensor:
        return x if bound is None else x.clamp(-bound, bound)

    n_steps, n_rows = inputs.shape[1:3]
    c, h, outputs = memory, output, []
    for t, n in enumerate(batch_sizes or [n_rows] * n_steps):
        gates = inputs[:, t, :n] @ input_weight + h[:, :n] @ recurrent_weight + bias[:, None]
        i, j, f, o = gates.chunk(4, dim=-1)
        c_t = torch.sigmoid(f) * c[:, :n] + torch.sigmoid(i) * torch.tanh(j)
        c_t = clip(c_t, cell_clip)
        h_t = torch.sigmoid(o) * torch.tanh(c_t)
        if projection_weight is not None:
            h_t = clip(h_t @ projection_weight, proj_clip)
        outputs.append(torch.nn.functional.pad(h_t, (0, 0, 0, n_rows - n)))
        c = torch.cat([c_t, c[:, n:]], dim=1)
        h = torch.cat([h_t, h[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), c, h


def scan_gradients(
    ctx: Any,
    inputs: Tensor,
    h: Tensor,
    m: Tensor,
    d_gates: Tensor,
    d_h: Tensor,
    d_bias: Tensor,
    input_weight: Tensor,
) -> tuple[Tensor | None, ...]:
    """
    The gradients of the arguments of `lstm_scan` that `ctx` requests. `inputs`, `h` and `m`, of
    shapes `(2, T, B, ...)`, were multiplied by W_x, W_h and W_P at each step; `d_gates`,
    `(2, T, B, 4D)`, `d_h`, of the outputs before their clip, and `d_bias`, `(2, 4D)`, are
    gradients; `input_weight` is W_x in the precision of the products.
    """

    def flat(x: Tensor) -> Tensor:
        return x.reshape(2, -1, x.size(-1)).to(input_weight.dtype)

    d = flat(d_gates)
    d_inputs = d_projection_weight = None
    if ctx.needs_input_grad[0]:
        d_inputs = batched_matmul(d, input_weight.transpose(1, 2)).to(inputs.dtype)
        d_inputs = d_inputs.view_as(inputs)
    if ctx.needs_input_grad[6]:
        # Transposed, because the first factor is copied and d_h is smaller than m.
        d_projection_weight = batched_matmul(flat(d_h).transpose(1, 2), flat(m)).transpose(1, 2)
    both = flat(torch.cat([inputs.to(h.dtype), h], dim=-1))  # one product is faster than two
    d_weights = batched_matmul(both.transpose(1, 2), d).split([inputs.size(-1), h.size(-1)], dim=1)
    return d_inputs, None, None, *d_weights, d_bias, d_projection_weight, None, None, None
