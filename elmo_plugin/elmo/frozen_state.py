"""
Detects when the output of a frozen module may have changed.

What was computed from a module is valid while the module's `FrozenState` is equal to the one before
the computation. If a module contains anything whose effect cannot be compared, it has no state.
Some changes cannot be detected (docs/speed.md), such as writing to the same memory through another
tensor, `parameter.data.mul_(2)`. Clear the caches after that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.ops.backend import are_plain

_NOT_SETTINGS = frozenset(nn.Module().__dict__)
"""Also `training`: a frozen module is computed as in evaluation."""
_AUTOCAST = ("cpu", "cuda", "mps", "xpu")
_PLAIN = (bool, int, float, str, type(None), torch.dtype)


@dataclass
class FrozenState:
    """
    The state of a frozen module. If two states that exist at the same time are equal, the module
    computed the same outputs at both times. A state holds a reference to every tensor and to its
    memory, so that Python cannot reuse a tensor's identity, nor PyTorch its address.

    `tensors`: parameters and buffers for which `is_frozen` is true. `settings`: everything else
    that the numbers depend on. `n_trained`: how often autograd has used the module, because
    training can change it without raising a version. `versions`: facts that change with the
    tensors.
    """

    tensors: list[Tensor] = field(compare=False)
    settings: tuple
    n_trained: int
    versions: list[tuple] = field(init=False)

    def __post_init__(self) -> None:
        self._aliases = [x.detach() for x in self.tensors]
        # `p.data = x` changes neither the identity nor the version of p, but its address or, if x
        # is a view of the same memory, its type, shape or strides.
        self.versions = [
            (id(x), x._version, x.data_ptr(), x.dtype, x.device, x.shape, x.stride())
            for x in self.tensors
        ]


def is_frozen(x: Tensor) -> bool:
    """
    Whether a parameter or buffer is a plain tensor that is not trained and whose version counts
    changes. Tensors from inference mode have no version, and `fused` optimizers do not raise it.
    """
    return (
        type(x) in (nn.Parameter, Tensor)
        and x.layout is torch.strided
        and not x.requires_grad
        and x.grad is None
        and not x.is_inference()
    )


def bytes_of(x: Tensor) -> memoryview:
    """The numbers of a tensor of any type."""
    return x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def frozen_state(module: nn.Module) -> FrozenState | None:
    """
    The state of a module with all its submodules, and PyTorch's precision settings. `None` if it
    cannot be compared with a later state, because a submodule is not plain, has a tensor that is
    not frozen, or has an attribute that is not a plain value. A submodule's attribute `n_trained`
    counts how often autograd has used it.
    """
    tensors: list[Tensor] = []
    settings: list[Any] = [
        *(torch.is_autocast_enabled(x) and torch.get_autocast_dtype(x) for x in _AUTOCAST),
        torch.backends.mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision,
        torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    ]
    n_trained = 0
    parts = list(module.named_modules(remove_duplicate=False))
    if not are_plain(part for _, part in parts):
        return None
    for name, part in parts:
        settings += (name, type(part).__name__)
        for key, value in part.__dict__.items():
            if key in _NOT_SETTINGS:
                continue
            if key == "n_trained":
                n_trained += value
                continue
            if type(value) in (list, tuple) and all(type(item) in _PLAIN for item in value):
                value = tuple(value)
            elif type(value) not in _PLAIN and not is_dataclass(value):  # options, which are frozen
                return None
            settings += (key, value)
        # `functional_call` replaces parameters by tensors for one call.
        if not all(isinstance(x, nn.Parameter | None) for x in part._parameters.values()):
            return None
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None:
                if not is_frozen(tensor):
                    return None
                tensors.append(tensor)
    return FrozenState(tensors, tuple(settings), n_trained)
