from typing import Any

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
    The gradients of the arguments of `lstm_scan`, by one product each.

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

    def weight_gradient(x: Tensor, d: Tensor) -> Tensor:
        return batched_matmul(flat(x).transpose(1, 2), d)

    d = flat(d_gates)
    d_inputs = d_projection_weight = None
    if ctx.needs_input_grad[0]:
        d_inputs = batched_matmul(d, input_weight.transpose(1, 2)).to(inputs.dtype)
        d_inputs = d_inputs.view_as(inputs)
    if ctx.needs_input_grad[6]:
        d_projection_weight = weight_gradient(m, flat(d_h))
    d_weights = weight_gradient(inputs, d), weight_gradient(h, d)
    return d_inputs, None, None, *d_weights, d_bias, d_projection_weight, None, None, None
