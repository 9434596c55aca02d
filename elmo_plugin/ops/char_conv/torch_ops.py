"""The maxima of convolutions and their gradients by PyTorch's operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def sort_by_length(characters: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """
    Sort words by their number of different windows. Windows that contain only a word's repeated
    last id (its padding) are all equal, and one of them is enough for the maximum.

    `characters`: character ids, shape `(U, C)`. Returns the words, most windows first, shape
    `(U, C)`; the index of each given word among them, shape `(U,)`; and for t = 0, 1, .. the number
    of words whose window at t is needed.
    """
    changes = characters[:, 1:] != characters[:, :-1]
    positions = torch.arange(1, characters.size(1), device=characters.device)
    last_window = F.pad(changes * positions, (1, 0)).amax(dim=1)
    last_window, order = last_window.sort(descending=True, stable=True)
    n_windows = torch.bincount(last_window).flip(0).cumsum(0).flip(0).tolist()
    return characters[order], order.argsort(), n_windows


def best_windows(
    characters: Tensor, tables: Sequence[Tensor], wants_places: bool
) -> tuple[Tensor, Tensor | None]:
    """
    The maxima of convolutions without their biases and, if wanted, the position of each window,
    both of shape `(U, F)`. `characters`: shape `(U, C)`; `tables`: `convolution_tables`. Raises an
    `IndexError` if an id has no row: in one table of all positions it would be another's.
    """
    n_characters = tables[0].size(1)
    if ((characters < 0) | (characters >= n_characters)).any():
        raise IndexError(f"characters: expected ids from 0 to {n_characters - 1}")
    words, place, n_windows = sort_by_length(characters)
    of_tables = [_best_windows_of(words, n_windows, table, wants_places) for table in tables]
    best = torch.cat([best for best, _ in of_tables], dim=1)[place]
    return best, torch.cat([at for _, at in of_tables], dim=1)[place] if wants_places else None


def table_gradients(
    d_best: Tensor, characters: Tensor, at: Tensor, tables: Sequence[Tensor]
) -> list[Tensor]:
    """The gradient of each table. `d_best`: that of the maxima; `at`: their windows' positions."""
    gradients = [d_best.new_zeros(table.shape) for table in tables]
    numbers = [table.size(2) for table in tables]
    parts = d_best.split(numbers, dim=1), at.long().split(numbers, dim=1)
    for d_table, d, windows in zip(gradients, *parts):
        for j in range(len(d_table)):
            # A filter's gradient flows only to the characters of the best window.
            d_table[j].scatter_add_(0, characters.gather(1, windows + j), d)
    return gradients


def _best_windows_of(
    characters: Tensor, n_windows: Sequence[int], table: Tensor, wants_places: bool
) -> tuple[Tensor, Any]:
    """`best_windows` of one convolution, for words from `sort_by_length`."""
    width, n_characters, _ = table.shape
    table = table.flatten(0, 1)
    offsets = torch.arange(width, device=characters.device) * n_characters
    windows = (characters.unfold(1, width, 1) + offsets).transpose(0, 1).contiguous()
    best = F.embedding_bag(windows[0], table, mode="sum")  # (U, n)
    index = torch.uint8 if len(windows) <= 256 else torch.int16
    at = torch.zeros_like(best, dtype=index) if wants_places else None
    for t, n in enumerate(n_windows[1 : len(windows)], start=1):
        y = F.embedding_bag(windows[t, :n], table, mode="sum")
        if at is not None:
            # t grows, so the maximum of both indices is the later one if y is greater.
            later = (y > best[:n]).to(at.dtype).mul_(t)
            torch.maximum(at[:n], later, out=at[:n])
        torch.maximum(best[:n], y, out=best[:n])
    return best, at
