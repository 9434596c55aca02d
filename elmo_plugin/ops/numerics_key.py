"""What a module's numbers depend on beside its input: for all that remembers numbers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def tensor_versions(tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    """
    Other than before whenever one of `tensors` is: a change in place raises a tensor's version,
    and another tensor has another address. Only a change of its `.data` goes unseen.
    """
    # A tensor made in inference mode has no version, and cannot change outside of it.
    return tuple((x.data_ptr(), 0 if x.is_inference() else x._version) for x in tensors)


def numerics_key(module: nn.Module) -> tuple[Any, ...]:
    """The kind of device, autocast's precision there or false, and those that are set."""
    device = next(module.parameters()).device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return device, autocast, *(m.precision for m in module.modules() if hasattr(m, "precision"))
