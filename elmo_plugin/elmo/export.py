"""A function of character ids as a program that needs PyTorch alone."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class _Program(nn.Module):
    """`vectors` as a module, in which `torch.export` finds the weights of `elmo`."""

    def __init__(self, elmo: nn.Module, vectors: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.elmo = elmo
        self.vectors = vectors

    def forward(self, characters: Tensor) -> Tensor:
        return self.vectors(characters)


def export_vectors(
    elmo: nn.Module, vectors: Callable[[Tensor], Tensor], example: Tensor
) -> torch.export.ExportedProgram:
    """
    The program of a function that uses the weights of `elmo`. `example`: character ids, shape
    `(B, T, C)`, of which B and T are dynamic. While a program is made, all that asks
    `torch.compiler.is_exporting` uses definitions instead of kernels, and no caches.
    """
    dynamic = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    program = _Program(elmo, vectors)
    return torch.export.export(program, (example,), dynamic_shapes=(dynamic,))
