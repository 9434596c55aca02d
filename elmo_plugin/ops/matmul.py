"""
Products of matrices, as fast as a CPU has them. On other devices they are PyTorch's own.

In fp32 PyTorch multiplies with MKL, which uses half of the vector unit of processors that are not
Intel's, and is slow where a matrix has few rows. oneDNN, which every PyTorch carries too, is
neither; the operators are those that `torch.compile` calls. What the two reach is among the figures
of `make bench`.

The precision of a product is its weight's: weights in bfloat16 make it bfloat16's, and the result
is as the input was.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.numerics_key import tensor_versions

BLOCK = 128
"""Rows of a product that is copied into place: what a core's caches hold, and enough to be fast."""


def _supported() -> set[torch.dtype]:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # a build without oneDNN
        return set()
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return {torch.float32}
    return {torch.float32, torch.bfloat16}


_ONEDNN = _supported()


class PackedWeights:
    """
    Matrices that do not change, in an order of memory that oneDNN multiplies fastest: nearly twice
    as fast again for a batch of 32, and four times for one row.

    # Parameters

    weights : `Tensor`
        Shape `(s, k, m)`.
    """

    def __init__(self, weights: Tensor) -> None:
        self.dtype = weights.dtype
        self.matrices = [
            torch.ops.mkldnn._reorder_linear_weight(w.t().contiguous()) for w in weights
        ]


def _is_onednns(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype in _ONEDNN


Weights = Tensor | PackedWeights


class PackedWeightCache:
    """
    Weights as products want them: in a precision, and packed where they are frozen, which is done
    once and not once a batch. A copy begins with nothing: packed weights can't be copied.
    """

    def __init__(self) -> None:
        self._kept: tuple[Any, list[Weights]] | None = None

    def clear(self) -> None:
        self._kept = None

    def __call__(self, weights: Sequence[Tensor], precision: torch.dtype | None) -> list[Weights]:
        """`weights`: stacks of matrices, shapes `(s, k, m)`. `precision`: by default theirs."""
        trained = any(w.requires_grad for w in weights)
        if trained:
            self.clear()
        if trained or torch.is_grad_enabled():  # packed weights pass no gradient on
            return [w.to(precision or w.dtype) for w in weights]
        key = precision, tensor_versions(weights)
        if self._kept is None or self._kept[0] != key:
            cast = [w.to(precision or w.dtype) for w in weights]
            self._kept = key, [PackedWeights(w) if _is_onednns(w) else w for w in cast]
        return self._kept[1]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return PackedWeightCache, ()


def products(x: Tensor, weights: Weights) -> Tensor:
    """x_s W_s. `x`: shape `(s, n, k)`; `weights`: `(s, k, m)`. Returns `(s, n, m)`."""
    each = _each(x, weights)
    if isinstance(each, Tensor):
        return each.to(x.dtype)
    each = list(each)
    out = x.new_empty(len(each), *each[0].shape)
    _copy(out, each)
    return out


def write_products(out: Tensor, x: Tensor, weights: Weights, bias: Tensor | None = None) -> None:
    """x_s W_s + b_s into `out`; `bias`: shape `(s, m)`, the others as in `products`."""
    n_rows = BLOCK if x.device.type == "cpu" else x.size(1)
    for at in range(0, x.size(1), n_rows):
        rows = slice(at, at + n_rows)
        _copy(out[:, rows], _each(x[:, rows], weights))
        if bias is not None:
            out[:, rows].add_(bias[:, None])


def add_products(total: Tensor, x: Tensor, weights: Weights) -> None:
    """x_s W_s added to `total`, in place; shapes as in `products`."""
    each = _each(x, weights)
    if isinstance(each, Tensor):
        total.add_(each)
        return
    for t, y in zip(total, each):
        t.add_(y.to(t.dtype))  # adding two types is slow


def _copy(out: Tensor, each: Iterable[Tensor]) -> None:
    if isinstance(each, Tensor):
        out.copy_(each)
        return
    for o, y in zip(out, each):
        o.copy_(y)


def _each(x: Tensor, weights: Weights) -> Iterable[Tensor]:
    """The products: one by one, since oneDNN has none of stacks; of a GPU the stack."""
    x = x.to(weights.dtype)
    if isinstance(weights, PackedWeights):
        return map(_onednn, x, weights.matrices)
    if weights.device.type != "cpu":
        return torch.bmm(x, weights)
    return map(times_transposed, x, weights.transpose(1, 2))


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T, without a gradient. `x`: shape `(n, k)`; `weight`: `(m, k)`; returns `(n, m)`."""
    # oneDNN has no product over nothing.
    return _onednn(x, weight) if _is_onednns(weight) and x.numel() else x @ weight.t()


def _onednn(x: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
