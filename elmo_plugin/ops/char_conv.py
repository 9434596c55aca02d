"""
The convolutions of a character CNN, each followed by max-pooling over the word.

On a CPU they need no matrix product per word. There are few characters, so embedding and
convolution are precomputed as a table: row a of table_j is what character a at position j of a
window adds to each filter. A convolution is then a sum of table rows,

    y_t = sum_j table_j[a_{t+j}],     table_j = E W_j,

and its maximum over t is updated step by step, in cache, for the words that have a window at t.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmo_plugin.ops.kernels import (
    MOST_CHARACTERS,
    kernel_best_windows,
    kernel_table_gradients,
    takes,
)
from elmo_plugin.ops.linear import is_on_cpu
from elmo_plugin.ops.no_double_backward import no_double_backward
from elmo_plugin.ops.private_torch import is_plain

_CONVOLUTION = (1,), (0,), (1,), 1
"""Stride, padding, dilation and groups of a convolution that the functions of this file compute."""

Convolutions = Sequence[tuple[Tensor, Tensor]]
"""Weight of shape `(n, c, w)` and bias of shape `(n,)` of each convolution, as in `Conv1d`."""


def max_of_convolutions(
    characters: Tensor,
    embedding: Tensor,
    convolutions: Convolutions,
    tables: Sequence[Tensor] | None = None,
) -> Tensor:
    """
    The maximum over each word of every convolution of its embedded characters.

    `characters`: character ids, shape `(U, C)`, int64; `embedding`: E, shape `(n_characters, c)`,
    whose row 0 gets no gradient; `tables`: `convolution_tables`, if already computed; they get no
    gradient either. Returns shape `(U, F)`, where F is the sum of all n.
    """
    if not is_on_cpu(characters):
        return reference_max_of_convolutions(characters, embedding, convolutions)
    if tables is None:
        maxima = _MaxOfConvolutions.apply(characters, embedding, *(w for w, _ in convolutions))
    else:
        maxima, _ = _best_windows(characters, tables, False)
    return maxima + torch.cat([bias for _, bias in convolutions])


def convolve(characters: Tensor, embedding: nn.Module, convolutions: Iterable[nn.Module]) -> Tensor:
    """
    `max_of_convolutions` of modules. If they have hooks, are not the usual ones, or are exported,
    they are called: this is the definition.
    """
    convolutions = list(convolutions)
    if is_usual(embedding, convolutions) and not torch.compiler.is_exporting():
        weights = [(conv.weight, conv.bias) for conv in convolutions]
        return max_of_convolutions(characters, embedding.weight, weights)  # type: ignore[arg-type]
    x = embedding(characters).transpose(1, 2)  # (U, c, C)
    return torch.cat([conv(x).amax(dim=2) for conv in convolutions], dim=1)


def is_usual(embedding: nn.Module, convolutions: Iterable[nn.Module]) -> bool:
    """Whether a character CNN has plain modules of the kinds that this file computes."""
    return (
        type(embedding) is nn.Embedding
        and embedding.max_norm is None
        and is_plain(embedding)
        and all(
            type(conv) is nn.Conv1d
            and (conv.stride, conv.padding, conv.dilation, conv.groups) == _CONVOLUTION
            and conv.bias is not None
            and is_plain(conv)
            for conv in convolutions
        )
    )


def convolution_tables(weights: Sequence[Tensor]) -> list[Tensor]:
    """
    The table of each convolution. `weights`: E and the convolutions' weights. Returns shapes
    `(w, n_characters, n)`.
    """
    embedding, *of_convolutions = weights
    return [
        torch.bmm(embedding.expand(weight.size(2), -1, -1), weight.permute(2, 1, 0))
        for weight in of_convolutions
    ]


def reference_max_of_convolutions(
    characters: Tensor, embedding: Tensor, convolutions: Convolutions
) -> Tensor:
    """The definition of `max_of_convolutions`, which is also the fastest on a GPU."""
    x = F.embedding(characters, embedding, padding_idx=0).transpose(1, 2)  # (U, c, C)
    return torch.cat([F.conv1d(x, *convolution).amax(dim=2) for convolution in convolutions], 1)


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
    last_window = (changes * positions).amax(dim=1) if len(characters) else positions[:0]
    last_window, order = last_window.sort(descending=True, stable=True)
    n_windows = torch.bincount(last_window).flip(0).cumsum(0).flip(0).tolist()
    return characters[order], order.argsort(), n_windows


class _MaxOfConvolutions(torch.autograd.Function):
    """The maxima of all convolutions without their biases, shape `(U, F)`."""

    @staticmethod
    def forward(ctx: Any, characters: Tensor, *weights: Tensor) -> Tensor:
        tables = convolution_tables(weights)
        best, at = _best_windows(characters, tables, any(ctx.needs_input_grad))
        ctx.save_for_backward(characters, at, *weights, *tables)
        return best

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        characters, at, embedding, *rest = ctx.saved_tensors
        n = len(rest) // 2
        weights, tables = rest[:n], rest[n:]
        d_best = grads[0].to(embedding.dtype)  # autocast may use another dtype
        d_embedding, d_weights = torch.zeros_like(embedding), []
        for weight, d_table in zip(weights, _table_gradients(d_best, characters, at, tables)):
            d_embedding += torch.bmm(d_table, weight.permute(2, 0, 1)).sum(dim=0)
            transposed = embedding.t().expand(weight.size(2), -1, -1)
            d_weights.append(torch.bmm(transposed, d_table).permute(2, 1, 0))
        d_embedding[0] = 0.0
        return None, d_embedding, *d_weights


def _best_windows(
    characters: Tensor, tables: Sequence[Tensor], wants_places: bool
) -> tuple[Tensor, Tensor | None]:
    """
    The maxima of convolutions without their biases and, if wanted, the position of each window,
    both of shape `(U, F)`. `characters`: shape `(U, C)`; `tables`: `convolution_tables`.
    """
    if _is_for_kernel(characters, tables):
        return kernel_best_windows(characters, tables, wants_places)
    words, place, n_windows = sort_by_length(characters)
    found = [_best_windows_of(words, n_windows, table, wants_places) for table in tables]
    best = torch.cat([best for best, _ in found], dim=1)[place]
    return best, torch.cat([at for _, at in found], dim=1)[place] if wants_places else None


def _table_gradients(
    d_best: Tensor, characters: Tensor, at: Tensor, tables: Sequence[Tensor]
) -> list[Tensor]:
    """The gradient of each table. `d_best`: that of the maxima; `at`: their windows' positions."""
    if _is_for_kernel(characters, tables):
        return kernel_table_gradients(d_best, characters, at, tables)
    gradients = [d_best.new_zeros(table.shape) for table in tables]
    numbers = [table.size(2) for table in tables]
    parts = d_best.split(numbers, dim=1), at.long().split(numbers, dim=1)
    for d_table, d, windows in zip(gradients, *parts):
        for j in range(len(d_table)):
            # A filter's gradient flows only to the characters of the best window.
            d_table[j].scatter_add_(0, characters.gather(1, windows + j), d)
    return gradients


def _is_for_kernel(characters: Tensor, tables: Sequence[Tensor]) -> bool:
    is_float = tables[0].dtype == torch.float32
    return is_float and takes(tables[0]) and characters.size(1) <= MOST_CHARACTERS


def _best_windows_of(
    characters: Tensor, n_windows: Sequence[int], table: Tensor, wants_places: bool
) -> tuple[Tensor, Any]:
    """`_best_windows` of one convolution, for words from `sort_by_length`."""
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
