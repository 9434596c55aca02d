from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., tuple[Tensor | None, ...]]


def no_double_backward(backward: Backward) -> Backward:
    """
    For a gradient written by hand, which has none itself: to ask for one is an error. (PyTorch's
    `once_differentiable` lets it pass where the gradient that comes in is a constant.)
    """

    def checked(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the biLM's gradients are written by hand and have none of their own: expected "
                "backward without create_graph"
            )
        return backward(ctx, *grads)

    return checked
