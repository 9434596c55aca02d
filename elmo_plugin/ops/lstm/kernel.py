"""The scan by the compiled kernel, which packs weights in a layout of its own."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.kernels import PADDED_TO, check
from elmo_plugin.ops.lstm.reference import LSTMWeights, reference_lstm, scan_gradients
from elmo_plugin.ops.no_double_backward import no_double_backward

BLOCK = 64
"""Number of columns of a block of the LSTM's packed weights."""


class KernelWeights(NamedTuple):
    """A stack of matrices in the kernel's memory layout, as returned by `pack`."""

    packed: Tensor


def pack(weights: Tensor, n_gates: int) -> Tensor:
    """
    Pack `weights`, shape `(2, k, n_gates * n)` with the gates' columns one after another, into
    shape `(2, blocks, n_gates, K, BLOCK)`. Columns after the first n and rows after the first k are
    zeros. In bf16 pairs of rows are interleaved, so that numbers of one column are adjacent.
    """
    n_stack, k, columns = weights.shape
    n = columns // n_gates
    n_pair = 2 if weights.dtype == torch.bfloat16 else 1
    x = weights.reshape(n_stack, k, n_gates, n)
    x = _padded(x, -k % PADDED_TO, -n % BLOCK)
    x = x.view(n_stack, x.size(1) // n_pair, n_pair, n_gates, -1, BLOCK)
    x = x.permute(0, 4, 3, 1, 5, 2).contiguous()
    return x.view(*x.shape[:3], -1, BLOCK)


def _padded(x: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """`x` with zeros after its rows (dimension 1) and columns (the last)."""
    if not (n_rows or n_columns):
        return x  # `pad` would copy it
    return F.pad(x, (0, n_columns, 0, 0, 0, n_rows))


def pack_for_kernel(weights: LSTMWeights) -> LSTMWeights:
    """The same weights with matrices that are `KernelWeights`."""
    return weights.map_matrices(lambda x, n_gates: KernelWeights(pack(x, n_gates)))


def kernel_scan(
    inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any, keep: bool = False
) -> tuple[Tensor, ...]:
    """
    The scan with packed weights; the arguments are `LSTMWeights` and batch sizes. The results are
    followed by the gates, c and m of every step for the backward pass, or by three times `None`
    without `keep`.
    """
    w_x, w_h, bias, w_p, *clips_and_sizes = arguments
    outputs, c, h, *kept = torch.ops.elmo_plugin.lstm_scan(
        *(x.float().contiguous() for x in (inputs, c_0, h_0)),
        w_x.packed,
        w_h.packed,
        bias.float().contiguous(),
        None if w_p is None else w_p.packed,
        *clips_and_sizes,
        keep,
    )
    return outputs.to(inputs.dtype), c.to(c_0.dtype), h.to(h_0.dtype), *kept


class KernelScan(torch.autograd.Function):
    """The kernel's scan with its gradient. Weights are packed in each pass."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        *given, batch_sizes = arguments
        weights = LSTMWeights(*given)
        x, c_0, h_0 = (tensor.float().contiguous() for tensor in (inputs, c_0, h_0))
        outputs, last_c, last_h, *kept = kernel_scan(
            x, c_0, h_0, *pack_for_kernel(weights), batch_sizes, keep=True
        )
        matrices = weights.input, weights.recurrent, weights.projection
        ctx.save_for_backward(x, c_0, h_0, *matrices, outputs, *kept)
        ctx.clips_and_sizes = weights.cell_clip, weights.proj_clip, batch_sizes
        ctx.mark_non_differentiable(last_c, last_h)
        return outputs.to(inputs.dtype), last_c, last_h

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, c_0, h_0, input_weight, recurrent_weight, projection_weight, outputs, gates, c, m = (
            ctx.saved_tensors
        )
        d_gates, d_h, d_bias = torch.ops.elmo_plugin.lstm_scan_backward(
            grads[0].float().contiguous(),
            outputs,
            c_0,
            gates,
            c,
            _pack_transposed(recurrent_weight),
            None if projection_weight is None else pack(projection_weight.transpose(1, 2), 1),
            *ctx.clips_and_sizes,
        )
        h = torch.cat([h_0[:, None], outputs], dim=1)[:, :-1]
        return scan_gradients(ctx, x, h, m, d_gates, d_h, d_bias, input_weight)


def _pack_transposed(recurrent_weight: Tensor) -> Tensor:
    """
    W_h transposed and packed, with its rows in the kernel's order: the four gates of a block of
    units.
    """
    n_stack, projection_dim, columns = recurrent_weight.shape
    x = recurrent_weight.view(n_stack, projection_dim, 4, columns // 4)
    x = _padded(x, -projection_dim % BLOCK, -x.size(-1) % BLOCK)
    x = x.view(n_stack, x.size(1) // BLOCK, BLOCK, 4, -1, BLOCK)
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.int32)  # pairs of rows stay pairs
    x = x.permute(0, 1, 4, 3, 5, 2).contiguous().view(recurrent_weight.dtype)
    return x.view(*x.shape[:2], 1, -1, BLOCK)


def self_test(dtype: torch.dtype) -> None:
    """Raise a `RuntimeError` if the results differ from `reference_lstm`."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return 0.3 * torch.randn(shape, generator=generator)

    tensors = [random(2, 4, 3, 5), random(2, 3, 70), random(2, 3, 6)]
    w_x, w_h, w_p = (random(*shape).to(dtype) for shape in ((2, 5, 280), (2, 6, 280), (2, 70, 6)))
    weights = LSTMWeights(w_x, w_h, random(2, 280), w_p, 0.4, 0.3)
    sizes = [3, 3, 2, 1]
    found = kernel_scan(*tensors, *pack_for_kernel(weights), sizes)
    in_fp32 = weights.map_matrices(lambda x, _: x.float())
    inputs, c_0, h_0 = tensors
    expected = reference_lstm(inputs, c_0, h_0, in_fp32, sizes)
    error = max(float((x - y).abs().max()) for x, y in zip(found, expected))
    if not error <= (1e-5 if dtype == torch.float32 else 0.02):
        raise RuntimeError(f"its {dtype} numbers are wrong by {error:g}")


check(self_test)
