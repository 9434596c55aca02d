"""
The equation of `ProjectedLSTM`, also for `torch.export`, and the part of its gradient that the
compiled kernel and the PyTorch version share.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.linear import batched_matmul


def reference_lstm(
    inputs: Tensor,
    c_0: Tensor,
    h_0: Tensor,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    projection_weight: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition of `lstm_scan` and of the kernel."""
    n_steps, n_rows = inputs.shape[1:3]
    c, h, outputs = c_0, h_0, []
    for t, n in enumerate(batch_sizes or [n_rows] * n_steps):
        c_t, h_t = reference_step(
            inputs[:, t, :n] @ input_weight + bias[:, None],
            c[:, :n],
            h[:, :n],
            recurrent_weight,
            projection_weight,
            cell_clip,
            proj_clip,
        )
        outputs.append(torch.nn.functional.pad(h_t, (0, 0, 0, n_rows - n)))
        c = torch.cat([c_t, c[:, n:]], dim=1)
        h = torch.cat([h_t, h[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), c, h


def exported_lstm(
    inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """
    `reference_lstm` for `torch.export`: the loop over time is an operator of the program, so that
    the numbers of steps and rows are not fixed. Instead of `batch_sizes`, the last argument is the
    mask of the rows that are read at each step, of shape `(T, B)`.
    """
    input_weight, recurrent_weight, bias, *rest, is_read = arguments
    # Not at the top, because it imports the compiler.
    from torch._higher_order_ops.scan import scan

    def step(state: Any, at_t: Any) -> tuple[Any, Tensor]:
        (c, h), (gates, mask) = state, at_t
        c_t, h_t = reference_step(gates, c, h, recurrent_weight, *rest)
        return (torch.where(mask, c_t, c), torch.where(mask, h_t, h)), h_t * mask

    gates = inputs @ input_weight[:, None] + bias[:, None, None]  # (2, T, B, 4D)
    at_steps = gates.transpose(0, 1), is_read[:, None, :, None]
    (c, h), outputs = scan(step, (c_0, h_0), at_steps)
    return outputs.transpose(0, 1), c, h


def reference_step(
    gates: Tensor,
    c: Tensor,
    h: Tensor,
    recurrent_weight: Tensor,
    projection_weight: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[Tensor, Tensor]:
    """
    One time step of n rows: c_t of shape `(2, n, D)` and h_t of shape `(2, n, P)`. `gates` is
    x_t W_x + b, of shape `(2, n, 4D)`, and `c` and `h` are those of the step before.
    """

    def clip(x: Tensor, bound: float | None) -> Tensor:
        return x if bound is None else x.clamp(-bound, bound)

    i, j, f, o = (gates + h @ recurrent_weight).chunk(4, dim=-1)
    c_t = clip(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j), cell_clip)
    h_t = torch.sigmoid(o) * torch.tanh(c_t)
    if projection_weight is not None:
        h_t = clip(h_t @ projection_weight, proj_clip)
    return c_t, h_t


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
