"""Keys for caches of numbers that a module computed."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook


def tensor_versions(tensors: Iterable[Tensor]) -> tuple[Any, ...]:
    """
    A key that changes when one of `tensors` changes: an in-place change and an optimizer's step
    with its gradient raise a tensor's version, and another tensor that lives at the same time has
    another address. A change of `.data` by other code is not seen, and code that replaces a
    parameter has to clear the cache.
    """
    # A tensor made in inference mode has no version, and cannot change outside it.
    return tuple((x.data_ptr(), 0 if x.is_inference() else x._version) for x in tensors)


def numerics_key(module: nn.Module) -> tuple[Any, ...]:
    """A key that changes with the device, the precision of autocast and those of `module`."""
    device = next(module.parameters()).device.type
    autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return device, autocast, *(m.precision for m in module.modules() if hasattr(m, "precision"))


def _raise_versions(optimizer: Optimizer, *_: Any) -> None:
    """After any optimizer's step: fused ones, and those that write `.data`, do not do so."""
    for group in optimizer.param_groups:
        changed = [x for x in group["params"] if x.grad is not None and not x.is_inference()]
        torch.autograd.graph.increment_version(changed)


register_optimizer_step_post_hook(_raise_versions)
