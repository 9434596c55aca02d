from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.matmul import batched_matmul


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
    The gradients of the arguments of `lstm_scan`.

    # Parameters

    ctx : `Any`
        Context of the autograd function: whether the inputs and W_P want a gradient.
    inputs, h, m : `Tensor`
        What was multiplied by W_x, W_h and W_P at each step, of shapes `(2, T, B, ..)`.
    d_gates, d_h : `Tensor`
        Gradients of the gates, `(2, T, B, 4D)`, and of the outputs before their clip.
    d_bias : `Tensor`
        Gradient of the bias, shape `(2, 4D)`.
    input_weight : `Tensor`
        W_x, in the precision of the products.

    # Returns

    `tuple[Tensor | None, ...]`
        A gradient for each argument.
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
