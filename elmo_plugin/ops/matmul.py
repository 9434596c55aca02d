"""
Matrix products without a gradient, by oneDNN on CPUs and by PyTorch on other devices. Their
references are `x @ weight` and `torch.bmm`.

On CPUs PyTorch multiplies fp32 with MKL, which uses half of the vector unit of processors that are
not Intel's, and is slow for matrices with few rows. oneDNN, which PyTorch contains too, has neither
fault; its operators are those that `torch.compile` calls. `make bench` measures both.

A product is computed in the precision of its weight, and the result has the input's.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_plugin.ops.private_torch import is_onednn_weight, onednn_linear, pack


class PackedWeights:
    """
    A stack of frozen matrices in the order of memory that oneDNN multiplies fastest: nearly twice
    as fast as unpacked for a batch of 32, and four times for one row.

    # Parameters

    weights : `Tensor`
        Matrices, shape `(s, k, m)`.
    """

    def __init__(self, weights: Tensor) -> None:
        self.shape = weights.shape
        self.dtype = weights.dtype
        self.matrices = [pack(w.t()) for w in weights]  # (m, k) each


Weights = Tensor | PackedWeights


def pack_weights(weights: Sequence[Tensor]) -> list[Weights]:
    """Packs the weights that oneDNN multiplies."""
    return [PackedWeights(w) if is_onednn_weight(w) else w for w in weights]


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """
    x W, where x has the weight's precision. `x`: shape `(n, k)`; `weight`: `(k, m)`. Returns shape
    `(n, m)`.
    """
    if is_onednn_weight(weight) and x.numel():  # oneDNN refuses empty products
        return onednn_linear(x, weight.t())
    return x @ weight


def batched_matmul(
    x: Tensor, weights: Weights, *, out: Tensor | None = None, add: bool = False
) -> Tensor:
    """
    x_s W_s for a stack of s products. The result is written to `out`, or added to it if `add`; by
    default it is a new tensor.

    `x`: shape `(s, n, k)`; `weights`: shape `(s, k, m)`; `out`: shape `(s, n, m)`, contiguous or
    not. Returns `out`.
    """
    cast = x.to(weights.dtype)
    if isinstance(weights, Tensor) and weights.device.type != "cpu":
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
