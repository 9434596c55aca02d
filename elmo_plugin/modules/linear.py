from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from elmo_plugin.modules.matrix_product import Prepared, is_onednns, onednn_linear, products


class Linear(nn.Linear):
    """PyTorch's, on the products of `matrix_product`. Attribute `precision`: that of the weight."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.precision: torch.dtype | None = None
        self._prepared = Prepared()

    def forward(self, x: Tensor) -> Tensor:
        """`x`: shape `(n, in_features)`. Returns shape `(n, out_features)`."""
        if self.weight.requires_grad:
            return linear(x, self.weight, self.bias, self.precision)
        [weight] = self._prepared([self.weight.t()[None]], self.precision)
        return products(x[None], weight)[0] + self.bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, precision: torch.dtype | None) -> Tensor:
    """
    x W^T + b, differentiable.

    # Parameters

    x : `Tensor`
        Shape `(n, k)`.
    weight : `Tensor`
        Shape `(m, k)`, as in `torch.nn.Linear`.
    bias : `Tensor | None`
        Shape `(m,)`.
    precision : `torch.dtype | None`
        Of the product, in place of the weight's.

    # Returns

    `Tensor`
        Shape `(n, m)`, of x's type.
    """
    cast = weight.to(precision or weight.dtype)
    if is_onednns(cast):
        return _Linear.apply(x, cast, bias)
    cast_bias = None if bias is None else bias.to(cast.dtype)
    return F.linear(x.to(cast.dtype), cast, cast_bias).to(x.dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = onednn_linear(x.to(weight.dtype), weight).to(x.dtype)
        return y if bias is None else y.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        d_y = grads[0].to(weight.dtype)
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = onednn_linear(d_y, weight.t()).to(x.dtype)
        if ctx.needs_input_grad[1]:
            d_weight = onednn_linear(d_y.t(), x.to(weight.dtype).t())
        if ctx.needs_input_grad[2]:
            d_bias = grads[0].sum(dim=0)
        return d_x, d_weight, d_bias
