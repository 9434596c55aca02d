from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.matmul import Weights, batched_matmul, matmul, pack_weights
from elmo_plugin.ops.no_double_backward import no_double_backward
from elmo_plugin.ops.packed_weights import PackedWeightCache


class Linear(nn.Linear):
    """`torch.nn.Linear` with the products of `ops.matmul`."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.precision: torch.dtype | None = None  # of products; by default the weight's
        self.packed_weights = PackedWeightCache(_pack_transposed)

    def forward(self, x: Tensor) -> Tensor:
        """`x`: shape `(n, in_features)`. Returns shape `(n, out_features)`."""
        packed = self.packed_weights([self.weight], self.precision)
        if packed is None:
            return linear(x, self.weight, self.bias, self.precision)
        return batched_matmul(x[None], packed[0])[0].add_(self.bias)


def _pack_transposed(weights: list[Tensor]) -> Sequence[Weights]:
    return pack_weights([weight.t()[None] for weight in weights])


def linear(x: Tensor, weight: Tensor, bias: Tensor, precision: torch.dtype | None = None) -> Tensor:
    """
    `torch.nn.functional.linear`, x W^T + b, with the products of `ops.matmul`. They are computed in
    `precision`, by default the weight's.

    `x`: shape `(n, k)`; `weight`: W, shape `(m, k)`; `bias`: shape `(m,)`. Returns shape `(n, m)`,
    in the precision of x.
    """
    return _Linear.apply(x, weight.to(precision or weight.dtype), bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return matmul(x.to(weight.dtype), weight.t()).to(x.dtype).add_(bias)

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        d_y = grads[0].to(weight.dtype)
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = matmul(d_y, weight).to(x.dtype)
        if ctx.needs_input_grad[1]:
            d_weight = matmul(d_y.t(), x.to(weight.dtype))
        if ctx.needs_input_grad[2]:
            d_bias = grads[0].sum(dim=0)
        return d_x, d_weight, d_bias
