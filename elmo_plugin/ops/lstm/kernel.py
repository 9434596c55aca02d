"""The scan by the compiled kernel, which packs weights in a layout of its own."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.backend import PADDED_TO
from elmo_plugin.ops.lstm.reference import LSTMWeights, Reading

COLUMNS = 64
"""Number of columns of a block of the packed weights."""


INTERLEAVED = {torch.float32: 1, torch.bfloat16: 2, torch.int8: 4, torch.int32: 1}
"""Number of rows of packed weights that are interleaved: numbers of one column are adjacent."""


class KernelWeights(NamedTuple):
    """
    A stack of matrices in the kernel's memory layout, as returned by `pack` or `quantize`. If there
    are `factors`, shape `(2, 1, 1, k)`, the other factor of the product is multiplied by them.
    """

    packed: Tensor
    factors: Tensor | None = None


def pack(weights: Tensor, n_gates: int, rows: int = PADDED_TO) -> Tensor:
    """
    Pack `weights`, shape `(2, k, n_gates * n)` with the gates' columns one after another, into
    shape `(2, blocks, n_gates, K, COLUMNS)`, where K is a multiple of `rows`. Columns after the
    first n and rows after the first k are zeros.
    """
    n_stack, k, columns = weights.shape
    n = columns // n_gates
    n_pair = INTERLEAVED[weights.dtype]
    x = weights.reshape(n_stack, k, n_gates, n)
    x = _padded(x, -k % rows, -n % COLUMNS)
    x = x.view(n_stack, x.size(1) // n_pair, n_pair, n_gates, -1, COLUMNS)
    x = x.permute(0, 4, 3, 1, 5, 2).contiguous()
    return x.view(*x.shape[:3], -1, COLUMNS)


def _padded(x: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """`x` with zeros after its rows (dimension 1) and columns (the last)."""
    if not (n_rows or n_columns):
        return x  # `pad` would copy it
    return F.pad(x, (0, n_columns, 0, 0, 0, n_rows))


def pack_all(weights: LSTMWeights) -> LSTMWeights:
    """The same weights with matrices that are `KernelWeights`."""
    return weights.map_matrices(lambda x, n_gates: KernelWeights(pack(x, n_gates)))


def largest(x: Tensor, dim: int) -> Tensor:
    """The largest absolute numbers of a dimension, which becomes 1."""
    return x.abs().amax(dim, keepdim=True)


def quantize(weights: Tensor, n_gates: int) -> Tensor:
    """
    Quantize `weights`, shape `(2, k, n_gates * n)`, and pack them in int8. A number w of a column
    becomes q = round(w / s), with the scale s = max |w| / 127 of the column. Behind the numbers of
    a block are the scales of its columns and, because the bytes of the other factor are larger by
    128, 128 times the sums of their q.
    """
    scales = largest(weights, dim=1) / 127
    q = (weights / torch.where(scales == 0, 1, scales)).round_()
    offsets = 128 * q.sum(dim=1, keepdim=True)  # integers, and exact below 2^24
    blocks = [pack(q.to(torch.int8), n_gates, 2 * PADDED_TO)]
    for x in (scales, offsets.to(torch.int32)):
        x = pack(x, n_gates, 1).view(torch.int8)
        blocks.append(x.view(*x.shape[:3], -1, COLUMNS))
    return torch.cat(blocks, dim=3)


def quantize_lstm_weights(weights: LSTMWeights) -> LSTMWeights:
    """
    The same weights with matrices in int8. Inputs, whose numbers may differ in size, lose least if
    their large numbers meet small weights: a row of W_x is divided, and its number of the input
    multiplied, by the root of the row's maximum (Xiao et al. 2023, SmoothQuant, without its data).
    """
    rows = largest(weights.input, dim=2)
    factors = torch.where(rows == 0, 1, rows.sqrt())
    quantized = weights._replace(input=weights.input / factors).map_matrices(
        lambda x, n_gates: KernelWeights(quantize(x, n_gates))
    )
    factors = factors.view(2, 1, 1, -1)
    return quantized._replace(input=quantized.input._replace(factors=factors))


def scan(reading: Reading, keep: bool = False) -> tuple[Tensor, ...]:
    """
    `torch_ops.scan` by the kernel, for contiguous tensors in fp32, and weights that may be packed.
    Kept tensors are only for `scan_backward`.
    """
    inputs, cell, hidden, weights, batch_sizes = reading
    if isinstance(weights.recurrent, Tensor):  # trained weights change between calls
        weights = pack_all(weights)
    w_x, w_h, bias, w_p, *clips = weights
    return torch.ops.elmo_plugin.lstm_scan(
        inputs if w_x.factors is None else inputs * w_x.factors,
        cell,
        hidden,
        w_x.packed,
        w_h.packed,
        bias.float().contiguous(),
        None if w_p is None else w_p.packed,
        *clips,
        batch_sizes,
        keep,
    )


def scan_backward(
    reading: Reading, d_outputs: Tensor, outputs: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`torch_ops.scan_backward` by the kernel."""
    _, cell, _, weights, batch_sizes = reading
    w_p = weights.projection
    return torch.ops.elmo_plugin.lstm_scan_backward(
        d_outputs.contiguous(),
        outputs,
        cell,
        kept,
        _pack_transposed(weights.recurrent),
        None if w_p is None else pack(w_p.transpose(1, 2), 1),
        weights.cell_clip,
        weights.proj_clip,
        batch_sizes,
    )


def _pack_transposed(recurrent_weight: Tensor) -> Tensor:
    """
    W_h transposed and packed, with its rows in the kernel's order: the four gates of a block of
    units.
    """
    n_stack, projection_dim, columns = recurrent_weight.shape
    x = recurrent_weight.view(n_stack, projection_dim, 4, columns // 4)
    x = _padded(x, -projection_dim % COLUMNS, -x.size(-1) % COLUMNS)
    x = x.view(n_stack, x.size(1) // COLUMNS, COLUMNS, 4, -1, COLUMNS)
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.int32)  # pairs of rows stay pairs
    x = x.permute(0, 1, 4, 3, 5, 2).contiguous().view(recurrent_weight.dtype)
    return x.view(*x.shape[:2], 1, -1, COLUMNS)
