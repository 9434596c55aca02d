"""The maxima of convolutions and their gradients by the compiled kernel."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.kernels import check

MOST_CHARACTERS = 256
"""The longest word, since the kernel keeps the positions of windows in a byte."""


def kernel_best_windows(
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


def kernel_table_gradients(
    d_best: Tensor, characters: Tensor, at: Tensor, tables: Sequence[Tensor]
) -> list[Tensor]:
    """`torch_ops.table_gradients` by the kernel: arguments and results are the same."""
    return torch.ops.elmo_plugin.table_gradients(
        d_best.contiguous(), characters.contiguous(), at, tables
    )


def self_test(dtype: torch.dtype) -> None:
    """Raise a `RuntimeError` if the numbers are not those of the definition."""
    generator = torch.Generator().manual_seed(0)
    n_words, n_characters = 9, 12
    characters = torch.randint(n_characters, (n_words, 10), generator=generator)
    characters[:4, 5:] = 0  # words with padding
    tables = [
        torch.randn(w, n_characters, n, generator=generator).requires_grad_()
        for w, n in ((1, 5), (3, 70))
    ]
    one_hot = F.one_hot(characters, n_characters).float().transpose(1, 2)
    with torch.enable_grad():
        convolved = [F.conv1d(one_hot, table.permute(2, 1, 0)) for table in tables]
        best = torch.cat([y.amax(dim=2) for y in convolved], dim=1)
        d_best = torch.randn(best.shape, generator=generator)
        gradients = torch.autograd.grad(best, tables, d_best)
    with torch.no_grad():
        found, at = kernel_best_windows(characters, tables, True)
        assert at is not None
        found_gradients = kernel_table_gradients(d_best, characters, at, tables)
        pairs = zip([found, *found_gradients], [best, *gradients])
        error = max(float((x - y).abs().max()) for x, y in pairs)
    if not error <= 1e-5:
        raise RuntimeError(f"its numbers of the convolutions are wrong by {error:g}")


check(self_test)
