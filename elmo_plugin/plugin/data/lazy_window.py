from collections.abc import Callable
from functools import cached_property

import torch

from elmo_plugin.text.prefetch import Tensors


class LazyWindow:
    """
    A window whose tensors are made by `make` when the model first reads them. When AllenNLP's
    trainer resumes, it draws and discards the earlier batches, which therefore costs nothing.
    """

    def __init__(self, make: Callable[[], Tensors]) -> None:
        self._make = make

    def __repr__(self) -> str:
        return "LazyWindow()"  # AllenNLP logs a sample of the first batch

    @cached_property
    def _tensors(self) -> Tensors:
        return self._make()

    def tensors(self, device: torch.device | str = "cpu") -> Tensors:
        """The window's tensors on `device`."""
        # Copied here, and not in the thread, so that the copies are queued on the model's stream.
        return {key: x.to(device, non_blocking=True) for key, x in self._tensors.items()}
