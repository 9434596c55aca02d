"""The maxima of convolutions and their gradients by the compiled kernel."""

from collections.abc import Sequence

import torch
from torch import Tensor

MOST_CHARACTERS = 256
"""The longest word of the kernel, which keeps the positions of windows in a byte."""


def best_windows(
    characters: Tensor, tables: Sequence[Tensor], wants_places: bool
) -> tuple[Tensor, Tensor | None]:
    """
    `torch_ops.best_windows` by the kernel: arguments and results are the same. Raises an
    `IndexError` if a character has no row in the tables.
    """
    best, at = torch.ops.elmo_plugin.best_windows(
        characters.contiguous(), [table.contiguous() for table in tables], wants_places
    )
    return best, at if wants_places else None


def table_gradients(
    d_best: Tensor, characters: Tensor, at: Tensor, tables: Sequence[Tensor]
) -> list[Tensor]:
    """`torch_ops.table_gradients` by the kernel: arguments and results are the same."""
    return torch.ops.elmo_plugin.table_gradients(
        d_best.contiguous(), characters.contiguous(), at, tables
    )
