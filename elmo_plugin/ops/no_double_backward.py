from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.private_torch import has_tangent

Backward = Callable[..., tuple[Tensor | None, ...]]


def no_double_backward(backward: Backward) -> Backward:
    """
    Decorator that raises an error if a hand-written gradient is differentiated again. (PyTorch's
    `once_differentiable` does not detect this if the incoming gradient is a constant.)
    """

    def checked(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the biLM's gradients are hand-written and cannot be differentiated again: "
                "expected backward without create_graph, found it with create_graph"
            )
        return backward(ctx, *grads)

    return checked


def no_forward_mode(*tensors: Any) -> None:
    """
    Raise an error if a tensor has a tangent, which computations without a gradient would silently
    drop.
    """
    if any(isinstance(x, Tensor) and has_tangent(x) for x in tensors):
        raise NotImplementedError(
            "the biLM's gradients are hand-written: expected backward or torch.autograd.grad, "
            "found a forward-mode derivative"
        )
