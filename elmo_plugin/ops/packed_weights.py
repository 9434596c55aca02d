from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.frozen_state import FrozenCache, FrozenState, is_frozen


class PackedWeightCache(FrozenCache):
    """
    Casts frozen weights to a precision and packs them, once and not for each batch. A copy starts
    empty, because packed weights cannot be copied.

    # Parameters

    pack : `Callable[[list[Tensor]], Sequence[Any]]`
        Packs weights, or computes something else from them.
    """

    def __init__(self, pack: Callable[[list[Tensor]], Sequence[Any]]) -> None:
        super().__init__()
        self._pack = pack

    def __call__(
        self, weights: Sequence[Tensor], precision: torch.dtype | None
    ) -> Sequence[Any] | None:
        """
        What `pack` returns for the weights in `precision`, by default their own. `None` if autograd
        is enabled, because no gradient passes packed weights, or if the weights are not frozen
        parameters.
        """
        if not all(isinstance(weight, nn.Parameter) and is_frozen(weight) for weight in weights):
            self.clear()
            return None
        if torch.is_grad_enabled():
            return None
        return self.find(
            FrozenState(weights, (precision,)),
            lambda: self._pack([w.detach().to(precision or w.dtype) for w in weights]),
        )

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self._pack,)
