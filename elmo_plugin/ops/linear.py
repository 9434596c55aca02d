"""
Matrix products, and a linear layer with a hand-written gradient, computed by oneDNN on CPUs and by
PyTorch on other devices. The references are `x @ weight` and `torch.bmm`.

On CPUs PyTorch computes fp32 products with MKL, which uses half of the vector unit on non-Intel
CPUs and is slow for matrices with few rows. oneDNN, which PyTorch also contains and which
`torch.compile` calls, has neither problem. `make bench` measures both.

A product is computed in the precision of its weight; the result has the precision of the input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.private_torch import (
    has_native_bfloat16,
    is_onednn_weight,
    no_double_backward,
    no_forward_mode,
    onednn_linear,
    onednn_weight,
)


class PackedWeights:
    """
    A stack of frozen matrices, shape `(s, k, m)`, in oneDNN's memory layout. Products are nearly
    twice as fast as unpacked for a batch of 32, and four times as fast for one row.
    """

    def __init__(self, weights: Tensor) -> None:
        self.shape = weights.shape
        self.dtype = weights.dtype
        self.matrices = [onednn_weight(w.t()) for w in weights]  # (m, k) each


Weights = Tensor | PackedWeights


def pack_weights(weights: Tensor) -> Weights:
    """Pack a stack of frozen matrices, if oneDNN multiplies them."""
    return PackedWeights(weights) if is_onednn_weight(weights) else weights


def is_on_cpu(x: Tensor) -> bool:
    """
    Whether `x` is on a CPU, for which this package has its own algorithms and block sizes. Tests
    replace this function to take the way of other devices.
    """
    return x.device.type == "cpu"


def on_device(x: Tensor, device: torch.device) -> Tensor:
    """
    `x` on a device. It is copied to a GPU from pinned memory, or the CPU would wait for what the
    GPU has to do before.
    """
    is_copied = device.type == "cuda" and x.device.type == "cpu"
    return (x.pin_memory() if is_copied else x).to(device, non_blocking=is_copied)


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """
    x W. x has the precision of the weight. `x`: shape `(n, k)`; `weight`: `(k, m)`. Returns shape
    `(n, m)`.
    """
    if is_onednn_weight(weight) and x.numel():  # oneDNN rejects empty products
        return onednn_linear(x, weight.t())
    return x @ weight


def batched_matmul(
    x: Tensor, weights: Weights, *, out: Tensor | None = None, add: bool = False
) -> Tensor:
    """
    x_s W_s for a stack of s products. The result is written to `out`, by default a new tensor, or
    added to it if `add`.

    `x`: shape `(s, n, k)`; `weights`: shape `(s, k, m)`; `out`: shape `(s, n, m)`, contiguous or
    not. Returns `out`.
    """
    cast = x.to(weights.dtype)
    if isinstance(weights, Tensor) and not is_on_cpu(weights):
        if out is not None and out.dtype == weights.dtype:
            return out.baddbmm_(cast, weights, beta=int(add))
        y = torch.bmm(cast, weights)
        if out is None:
            return y.to(x.dtype)
        return out.add_(y) if add else out.copy_(y)
    if out is None:
        out = x.new_empty(*x.shape[:2], weights.shape[-1])
    if isinstance(weights, PackedWeights):
        products = map(onednn_linear, cast, weights.matrices)
    else:
        products = map(matmul, cast, weights)
    for o, y in zip(out, products):
        if add:
            o.add_(y.to(o.dtype))  # adding tensors of two types is slow
        else:
            o.copy_(y)
    return out


def product_dtype(weight: Tensor, precision: torch.dtype | None) -> torch.dtype:
    """
    The type to cast a weight to for products in `precision`, by default its own. A device without
    native bfloat16 keeps the weight's: on an AMD EPYC with AVX2, products in bfloat16 took 400
    times as long as in fp32 (`benchmarks.measure.MatrixProductPeak`). int8 is for the weights of
    frozen LSTMs alone (`quantize_lstm_weights`); others are cast as for bfloat16.
    """
    if precision == torch.int8:
        precision = torch.bfloat16
    if precision == torch.bfloat16 and not has_native_bfloat16(weight.device):
        return weight.dtype
    return precision or weight.dtype


def cast(weights: Sequence[Tensor], dtype: torch.dtype) -> Sequence[Tensor]:
    """Cast all weights, and later their gradients, with one operator: fewer launches on a GPU."""
    return weights if weights[0].dtype == dtype else _Cast.apply(dtype, *weights)


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        return _copies(weights, dtype)

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_copies(grads, ctx.dtype)


def _copies(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(x, dtype=dtype) for x in tensors]
    torch._foreach_copy_(copies, tensors)
    return tuple(copies)


class Linear(nn.Linear):
    """`torch.nn.Linear` with the products of this file."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.precision: torch.dtype | None = None  # of products; by default the weight's

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer. `x`: shape `(n, in_features)`. Returns shape `(n, out_features)`."""
        no_forward_mode(x, self.weight, self.bias)
        return linear(x, self.weight, self.bias, self.precision)


def linear(x: Tensor, weight: Tensor, bias: Tensor, precision: torch.dtype | None = None) -> Tensor:
    """
    `torch.nn.functional.linear`, x W^T + b, with the products of this file. They are computed in
    `precision`, by default the weight's.

    `x`: shape `(n, k)`; `weight`: W, shape `(m, k)`; `bias`: shape `(m,)`. Returns shape `(n, m)`,
    in the precision of x.
    """
    return _Linear.apply(x, weight.to(product_dtype(weight, precision)), bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.dtype, x = x.dtype, x.to(weight.dtype)
        ctx.save_for_backward(x, weight)
        y = matmul(x, weight.t())
        # Adding tensors of two types is slow on a CPU, and one operator less on a GPU.
        return y.to(ctx.dtype).add_(bias) if is_on_cpu(y) else (y + bias).to(ctx.dtype)

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        d_y = grads[0].to(weight.dtype)
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = matmul(d_y, weight).to(ctx.dtype)
        if ctx.needs_input_grad[1]:
            d_weight = matmul(d_y.t(), x)
        if ctx.needs_input_grad[2]:
            d_bias = grads[0].sum(dim=0)
        return d_x, d_weight, d_bias
