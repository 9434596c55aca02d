import torch
from torch import Tensor


def on_device(x: Tensor, device: torch.device) -> Tensor:
    """
    `x` on a device. It is copied to a GPU from pinned memory, or the CPU would wait for what the
    GPU has to do before.
    """
    is_copied = device.type == "cuda" and x.device.type == "cpu"
    return (x.pin_memory() if is_copied else x).to(device, non_blocking=is_copied)
