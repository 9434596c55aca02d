"""Keys for caches of numbers that a module computed."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def tensor_versions(tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    """
    A key that changes when one of `tensors` changes: an in-place change raises a tensor's version,
    and another tensor has another address. Only a change of its `.data` is not seen.
    """
    # A tensor made in inference mode has no version, and cannot change outside it.
    return tuple((x.data_ptr(), 0 if x.is_inference() else x._version) for x in tensors)


def numerics_key(module: nn.Module) -> tuple[Any, ...]:
    """A key that changes with the device, the precision of autocast and those of `module`."""
    device = next(module.parameters()).device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return device, autocast, *(m.precision for m in module.modules() if hasattr(m, "precision"))
