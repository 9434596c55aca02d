"""
The fast path of `ProjectedLSTM`: the same recurrence with its gradient written by hand.

All inputs take one matrix product before the first step, and all weight gradients one after the
last; only what is recurrent is left inside the loop. Symbols and shapes are those of
`ProjectedLSTM`; its `reference` is the equation.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def lstm_scan(
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
    """
    See `ProjectedLSTM.forward`; `bias` has the forget gate's 1 in it. Keeps what the gradient needs
    only where there will be one.
    """
    if batch_sizes is None:
        batch_sizes = [inputs.size(2)] * inputs.size(1)
    weights = (input_weight, recurrent_weight, bias, projection_weight)
    if torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (inputs, *weights)
    ):
        return _Scan.apply(inputs, memory, output, *weights, cell_clip, proj_clip, batch_sizes)

    gates = _input_gates(inputs, input_weight, bias)
    outputs = inputs.new_zeros(*inputs.shape[:3], output.size(-1))
    c, h = memory.clone(), output.clone()
    for t, n in enumerate(batch_sizes):
        g = gates[:, t, :n].baddbmm_(h[:, :n], recurrent_weight)
        _, h[:, :n] = _step(g, c[:, :n], c[:, :n], projection_weight, cell_clip, proj_clip)
        outputs[:, t, :n] = h[:, :n]
    return outputs, c, h


def _input_gates(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W_x + b for all steps at once, shape `(2, T, B, 4D)`."""
    x = inputs.reshape(2, -1, inputs.size(-1))
    return torch.baddbmm(bias[:, None], x, weight).view(*inputs.shape[:3], -1)


def _step(
    gates: Tensor,
    c_before: Tensor,
    c: Tensor,
    projection_weight: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[Tensor, Tensor]:
    """
    One time step. `gates`, `(2, n, 4D)`, becomes its activations in place; the new memory is
    written into `c`, `(2, n, D)`. Returns sigmoid(o) * tanh(c), `(2, n, D)`, and h, `(2, n, P)`.
    """
    dim = c.size(-1)
    gates[..., :dim].sigmoid_()
    gates[..., dim : 2 * dim].tanh_()
    gates[..., 2 * dim :].sigmoid_()
    i, j, f, o = gates.chunk(4, dim=-1)
    torch.mul(f, c_before, out=c) if c is not c_before else c.mul_(f)
    c.addcmul_(i, j)
    if cell_clip is not None:
        c.clamp_(-cell_clip, cell_clip)
    m = torch.tanh(c).mul_(o)
    if projection_weight is None:
        return m, m
    h = torch.bmm(m, projection_weight)
    return m, h if proj_clip is None else h.clamp_(-proj_clip, proj_clip)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        memory: Tensor,
        output: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection_weight: Tensor | None,
        cell_clip: float | None,
        proj_clip: float | None,
        batch_sizes: Sequence[int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        n_steps, n_rows = inputs.shape[1:3]
        gates = _input_gates(inputs, input_weight, bias)
        # Fresh memory costs as much as a small step; zeros are wanted only where rows are skipped.
        fresh = memory.new_zeros if min(batch_sizes) < n_rows else memory.new_empty
        # Step 0 is the state before the first: then c[:, t] and h[:, t] are what step t starts from.
        c = fresh(2, n_steps + 1, *memory.shape[1:])
        h = fresh(2, n_steps + 1, *output.shape[1:])
        m = fresh(2, n_steps, *memory.shape[1:])
        c[:, 0], h[:, 0] = memory, output
        for t, n in enumerate(batch_sizes):
            g = gates[:, t, :n].baddbmm_(h[:, t, :n], recurrent_weight)
            m[:, t, :n], h[:, t + 1, :n] = _step(
                g, c[:, t, :n], c[:, t + 1, :n], projection_weight, cell_clip, proj_clip
            )
        ctx.save_for_backward(
            inputs, input_weight, recurrent_weight, projection_weight, gates, c, h, m
        )
        ctx.clips = cell_clip, proj_clip
        ctx.batch_sizes = batch_sizes
        rows = torch.arange(n_rows, device=inputs.device)
        lengths = (torch.tensor(batch_sizes, device=inputs.device)[:, None] > rows).sum(0)
        last_c, last_h = c[:, lengths, rows], h[:, lengths, rows]
        ctx.mark_non_differentiable(last_c, last_h)
        return h[:, 1:].clone(), last_c, last_h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, input_weight, recurrent_weight, projection_weight, gates, c, h, m = (
            ctx.saved_tensors
        )
        cell_clip, proj_clip = ctx.clips
        d_out = grads[0]
        ragged = min(ctx.batch_sizes) < d_out.size(2)
        d_gates = torch.zeros_like(gates) if ragged else torch.empty_like(gates)
        d_h = d_out.clone(memory_format=torch.contiguous_format)
        d_c_later = torch.zeros_like(c[:, 0])
        recurrent_weight_t = recurrent_weight.transpose(1, 2)
        n_later = 0
        for t, n in reversed(list(enumerate(ctx.batch_sizes))):
            d_h_t = d_h[:, t, :n]
            if n_later:
                d_h_t[:, :n_later].baddbmm_(d_gates[:, t + 1, :n_later], recurrent_weight_t)
            d_m = d_h_t
            if projection_weight is not None:
                if proj_clip is not None:
                    # A clipped number stands exactly on the bound; no gradient passes it.
                    d_h_t.mul_(h[:, t + 1, :n].abs() < proj_clip)
                d_m = torch.bmm(d_h_t, projection_weight.transpose(1, 2))
            _step_backward(
                d_m,
                d_c_later[:, :n],
                gates[:, t, :n],
                c[:, t, :n],
                c[:, t + 1, :n],
                d_gates[:, t, :n],
                cell_clip,
            )
            n_later = n

        def flat(x: Tensor) -> Tensor:
            return x.reshape(2, -1, x.size(-1))

        flat_d = flat(d_gates)
        return (
            torch.bmm(flat_d, input_weight.transpose(1, 2)).view_as(inputs)
            if ctx.needs_input_grad[0]
            else None,
            None,
            None,
            torch.bmm(flat(inputs).transpose(1, 2), flat_d),
            torch.bmm(flat(h[:, :-1]).transpose(1, 2), flat_d),
            flat_d.sum(dim=1),
            torch.bmm(flat(m).transpose(1, 2), flat(d_h))
            if projection_weight is not None
            else None,
            None,
            None,
            None,
        )


def _step_backward(
    d_m: Tensor,
    d_c: Tensor,
    gates: Tensor,
    c_before: Tensor,
    c: Tensor,
    d_gates: Tensor,
    cell_clip: float | None,
) -> None:
    """
    The gradient of `_step`. `d_c`, `(2, n, D)`, holds the later steps' gradient of the memory and
    becomes that of the memory before; `d_gates`, `(2, n, 4D)`, is written.
    """
    i, j, f, o = gates.chunk(4, dim=-1)
    d_i, d_j, d_f, d_o = d_gates.chunk(4, dim=-1)
    tanh_c = torch.tanh(c)
    torch.ops.aten.sigmoid_backward.grad_input(d_m * tanh_c, o, grad_input=d_o)
    d_c.add_(torch.ops.aten.tanh_backward(d_m * o, tanh_c))
    if cell_clip is not None:
        d_c.mul_(c.abs() < cell_clip)
    torch.ops.aten.sigmoid_backward.grad_input(d_c * j, i, grad_input=d_i)
    torch.ops.aten.tanh_backward.grad_input(d_c * i, j, grad_input=d_j)
    torch.ops.aten.sigmoid_backward.grad_input(d_c * c_before, f, grad_input=d_f)
    d_c.mul_(f)
