"""
The scan and its gradient on NVIDIA's GPUs: a Triton kernel for the pointwise part of a time step,
and one for its gradient. Symbols and shapes are those of `torch_ops`, which computes the same with
many more operators. Here a step is two products, a clip and one of the kernels.

Gates, m and the gradients of both have the precision of the products, so that a step in bfloat16
reads and writes half as much. The kernels compute in float32, and memory cells are float32.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops import backend, private_torch
from elmo_plugin.ops.lstm.reference import LSTMWeights, Reading
from elmo_plugin.ops.lstm.torch_ops import DEVICE_ROWS, last_of_rows
from elmo_plugin.ops.triton_language import tl, triton

UNITS: tl.constexpr = tl.constexpr(1024)
"""Number of units of a row that a program of a kernel computes."""

# ---- The kernels: a program for each row, `UNITS` units and direction ----
# A stride is the distance of the two directions in memory. `dim` is D.


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    e = tl.exp(-2 * tl.abs(x))  # at most 1, where exp(2x) would overflow
    return tl.where(x < 0, e - 1, 1 - e) / (1 + e)


@triton.jit
def _load(x, at, inside):
    return tl.load(x + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _cell(
    gates,
    recurrent,
    bias,
    c_before,
    c,
    m,
    gates_stride,
    recurrent_stride,
    bias_stride,
    before_stride,
    c_stride,
    m_stride,
    dim,
    clip,
    KEEP: tl.constexpr,
):
    """
    c_t and m_t of a row. `gates`: x_t W_x, which their activations replace with `KEEP`;
    `recurrent`: h_{t-1} W_h. `clip`: the bound of c_t, or `None`.
    """
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    inside = unit < dim
    gates += direction * gates_stride + row * 4 * dim
    recurrent += direction * recurrent_stride + row * 4 * dim
    bias += direction * bias_stride
    at = row * dim + unit
    x = unit
    i = _sigmoid(_load(gates, x, inside) + _load(recurrent, x, inside) + _load(bias, x, inside))
    x += dim
    j = _tanh(_load(gates, x, inside) + _load(recurrent, x, inside) + _load(bias, x, inside))
    x += dim
    f = _sigmoid(_load(gates, x, inside) + _load(recurrent, x, inside) + _load(bias, x, inside))
    x += dim
    o = _sigmoid(_load(gates, x, inside) + _load(recurrent, x, inside) + _load(bias, x, inside))
    c_t = f * _load(c_before + direction * before_stride, at, inside) + i * j
    if clip is not None:
        c_t = tl.where(c_t > clip, clip, tl.where(c_t < -clip, -clip, c_t))  # NaN stays
    tl.store(c + direction * c_stride + at, c_t, mask=inside)
    tl.store(m + direction * m_stride + at, o * _tanh(c_t), mask=inside)
    if KEEP:
        tl.store(gates + unit, i, mask=inside)
        tl.store(gates + unit + dim, j, mask=inside)
        tl.store(gates + unit + 2 * dim, f, mask=inside)
        tl.store(gates + unit + 3 * dim, o, mask=inside)


@triton.jit(do_not_specialize=["n_rows"])  # or a batch of sentences might compile it again
def _cell_backward(
    gates,
    c_before,
    c,
    d_m,
    d_c,
    d_h,
    gates_stride,
    before_stride,
    c_stride,
    d_m_stride,
    d_c_stride,
    d_h_stride,
    dim,
    clip,
    n_rows,
    h_dim,
):
    """
    The gradient of `_cell` for a row, from `d_m`, that of m_t: in `gates` the gradients of the sums
    replace the activations, and in `d_c` the gradient of c_{t-1} that of c_t. After the first
    `n_rows`, which read this step, gradients of the sums are zeros, and so is `d_h`, that of h_t,
    which has `h_dim` numbers.
    """
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(2).to(tl.int64)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    inside = unit < dim
    gates += direction * gates_stride + row * 4 * dim
    at = row * dim + unit
    if row < n_rows:
        i = _load(gates, unit, inside)
        j = _load(gates, unit + dim, inside)
        f = _load(gates, unit + 2 * dim, inside)
        o = _load(gates, unit + 3 * dim, inside)
        c_t = _load(c + direction * c_stride, at, inside)
        d_m_t = _load(d_m + direction * d_m_stride, at, inside)
        d_c += direction * d_c_stride
        tanh_c = _tanh(c_t)
        d_c_t = _load(d_c, at, inside) + d_m_t * o * (1 - tanh_c * tanh_c)
        if clip is not None:
            d_c_t *= (tl.abs(c_t) < clip).to(tl.float32)  # a clipped number equals the bound
        before = _load(c_before + direction * before_stride, at, inside)
        tl.store(gates + unit, d_c_t * j * i * (1 - i), mask=inside)
        tl.store(gates + unit + dim, d_c_t * i * (1 - j * j), mask=inside)
        tl.store(gates + unit + 2 * dim, d_c_t * before * f * (1 - f), mask=inside)
        tl.store(gates + unit + 3 * dim, d_m_t * tanh_c * o * (1 - o), mask=inside)
        tl.store(d_c + at, d_c_t * f, mask=inside)
    else:
        zeros = tl.zeros((UNITS,), tl.float32)
        for gate in tl.static_range(4):
            tl.store(gates + unit + gate * dim, zeros, mask=inside)
        d_h += direction * d_h_stride + row * h_dim
        for first in range(tl.program_id(1) * UNITS, h_dim, tl.num_programs(1) * UNITS):
            number = first + tl.arange(0, UNITS)
            tl.store(d_h + number, zeros, mask=number < h_dim)


# ---- The scan ----


def scan(reading: Reading, keep: bool = False) -> tuple[Tensor, ...]:
    """`torch_ops.scan` in Triton. `scan_backward` needs what is kept; m has the products' type."""
    inputs, cell, hidden, weights, batch_sizes = reading
    n_steps, n_rows = inputs.shape[1:3]
    dtype, bias = weights.recurrent.dtype, weights.bias.contiguous()
    h = _fresh(hidden, reading, n_steps, dtype)
    n_kept = n_steps if keep else 1
    c, m = _fresh(cell, reading, n_kept), _fresh(cell, reading, n_kept, dtype)
    if not keep:
        c[:, 0] = cell  # of rows that read nothing
        n_steps = max(1, min(DEVICE_ROWS // max(1, n_rows), n_steps))
    recurrent = inputs.new_empty(2, n_rows, bias.size(-1), dtype=dtype)
    c_steps, m_steps, h_steps = c.unbind(1), m.unbind(1), h.unbind(1)
    c_before, h_before = cell.contiguous(), hidden.to(dtype)
    for first in range(0, max(1, len(batch_sizes)), max(1, n_steps)):  # once also without steps
        sizes = batch_sizes[first : first + n_steps]
        n_read = n_rows if keep else max(sizes, default=0)
        gates = _input_gates(inputs[:, first : first + n_steps, :n_read], weights)
        for t, (n, gates_t) in enumerate(zip(sizes, gates.unbind(1))):
            if n:
                k, h_t = t if keep else 0, _first(h_steps[first + t], n)
                sums = _first(recurrent, n)
                torch.bmm(_first(h_before, n), weights.recurrent, out=sums)
                tensors = gates_t, recurrent, bias, c_before, c_steps[k], m_steps[k]
                _launch(_cell, tensors, n, cell.size(-1), weights.cell_clip, keep)
                _project(_first(m_steps[k], n), weights, h_t)
                c_before, h_before = c_steps[k], h_steps[first + t]
    outputs = h.to(hidden.dtype)
    last_h = last_of_rows(hidden, outputs, batch_sizes)
    if not keep:
        return outputs, c[:, 0], last_h
    return outputs, last_of_rows(cell, c, batch_sizes), last_h, m, gates, c


def _fresh(like: Tensor, reading: Reading, n_steps: int, dtype: Any = None) -> Tensor:
    """Numbers of each step to write to, which are zeros where a row does not read one."""
    skips = min(reading.batch_sizes, default=0) < like.size(1)
    new = like.new_zeros if skips else like.new_empty
    return new(2, n_steps, *like.shape[1:], dtype=dtype or like.dtype)


def _first(x: Tensor, n: int) -> Tensor:
    """The first n rows. A view of all would cost as much as a small kernel."""
    return x if n == x.size(1) else x[:, :n]


def _input_gates(inputs: Tensor, weights: LSTMWeights) -> Tensor:
    """x W_x of some steps, shape `(2, T, B, 4D)`."""
    x = inputs.reshape(2, -1, inputs.size(-1)).to(weights.input.dtype)
    # With `out`, autocast does not change the types.
    gates = torch.bmm(x, weights.input, out=x.new_empty(*x.shape[:2], weights.input.size(-1)))
    return gates.view(*inputs.shape[:3], gates.size(-1))


def _project(m: Tensor, weights: LSTMWeights, h: Tensor) -> None:
    if weights.projection is None:
        h.copy_(m)
        return
    torch.bmm(m, weights.projection, out=h)
    if weights.proj_clip is not None:
        h.clamp_(-weights.proj_clip, weights.proj_clip)


def scan_backward(
    reading: Reading, d_outputs: Tensor, outputs: Tensor, gates: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`torch_ops.scan_backward` in Triton; the first two gradients have the products' type."""
    _, cell, _, weights, batch_sizes = reading
    w_h_t = weights.recurrent.transpose(1, 2)
    w_p_t = None if weights.projection is None else weights.projection.transpose(1, 2)
    d_gates = (
        gates.clone() if private_torch.is_graph_kept() else gates
    )  # the activations are replaced
    d_h = d_outputs.to(w_h_t.dtype, memory_format=torch.contiguous_format, copy=True)
    unclipped = None
    if w_p_t is not None and weights.proj_clip is not None:
        # A clipped number equals the bound and has no gradient.
        unclipped = (outputs.abs() < _rounded(weights.proj_clip, w_p_t.dtype)).unbind(1)
    d_c = torch.zeros_like(cell, memory_format=torch.contiguous_format)
    d_m = d_c.new_empty(d_c.shape, dtype=w_h_t.dtype)
    gates_steps, d_h_steps, c_steps = d_gates.unbind(1), d_h.unbind(1), c.unbind(1)
    cells = [cell.contiguous(), *c_steps]
    n_later = 0
    for t, n in reversed(list(enumerate(batch_sizes))):
        d_h_t = d_h_steps[t]
        if n_later:
            _first(d_h_t, n_later).baddbmm_(_first(gates_steps[t + 1], n_later), w_h_t)
        if unclipped is not None:
            d_h_t.mul_(unclipped[t])
        if w_p_t is None:
            d_m = d_h_t
        elif n:
            torch.bmm(_first(d_h_t, n), w_p_t, out=_first(d_m, n))
        _launch(
            _cell_backward,
            (gates_steps[t], cells[t], c_steps[t], d_m, d_c, d_h_t),
            *(cell.size(1), cell.size(-1), weights.cell_clip, n, d_h.size(-1)),
        )
        n_later = n
    return d_gates, d_h, d_gates.sum(dim=(1, 2), dtype=cell.dtype)


@cache
def _rounded(clip: float, dtype: torch.dtype) -> float:
    """A bound as numbers of this type have it."""
    return torch.tensor(clip, dtype=dtype, device="cpu").item()


def _launch(
    kernel: Any, tensors: Sequence[Tensor], n_rows: int, dim: int, clip: float | None, *last: int
) -> None:
    strides = (x.stride(0) for x in tensors)
    grid = n_rows, triton.cdiv(dim, UNITS.value), 2
    backend.launch(kernel, grid, *tensors, *strides, dim, clip, *last)
