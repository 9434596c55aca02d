"""
The fast path of `CharCNN`'s convolutions on a CPU: the same maximum, without the products.

There are few characters, so embedding and convolution make a table: what character a at position j
of a window adds to each filter. A convolution is then a sum of table rows,

    y_t = sum_j table_j[a_{t+j}],     table_j = E W_j,

and its maximum over t can be kept while t runs, in cache, for as many words as still go on.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.no_double_backward import no_double_backward


def sort_by_length(characters: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """
    Sorts words by how many windows of theirs differ: from where a word only repeats its last id
    (its padding), all windows are alike, and one of them is enough for the maximum.

    # Parameters

    characters : `Tensor`
        Shape `(U, C)`.

    # Returns

    `tuple[Tensor, Tensor, list[int]]`
        The words, most windows first, `(U, C)`; each given word's place among them, `(U,)`; and for
        t = 0, 1, .. how many words have a window of their own at t.
    """
    changes = characters[:, 1:] != characters[:, :-1]
    positions = torch.arange(1, characters.size(1), device=characters.device)
    last_window = (changes * positions).amax(dim=1) if len(characters) else positions[:0]
    last_window, order = last_window.sort(descending=True, stable=True)
    n_windows = torch.bincount(last_window).flip(0).cumsum(0).flip(0).tolist()
    return characters[order], order.argsort(), n_windows


def max_of_convolution(
    characters: Tensor, n_windows: Sequence[int], embedding: Tensor, weight: Tensor
) -> Tensor:
    """
    # Parameters

    characters : `Tensor`
        Shape `(U, C)`, int64, sorted as `sort_by_length` does.
    n_windows : `Sequence[int]`
        From `sort_by_length`.
    embedding : `Tensor`
        E, shape `(n_characters, c)`.
    weight : `Tensor`
        W, shape `(n, c, w)`, as a `Conv1d` has it.

    # Returns

    `Tensor`
        Shape `(U, n)`: each filter's maximum over a word, without the bias.
    """
    return _MaxOfConvolution.apply(characters, n_windows, embedding, weight)


class _MaxOfConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, characters: Tensor, n_windows: Sequence[int], embedding: Tensor, weight: Tensor
    ) -> Tensor:
        n_filters, _, width = weight.shape
        n_characters = len(embedding)
        table = (embedding @ weight.permute(2, 1, 0)).view(-1, n_filters)  # (w * n_characters, n)
        offsets = torch.arange(width) * n_characters
        windows = (characters.unfold(1, width, 1) + offsets).transpose(0, 1).contiguous()
        best = F.embedding_bag(windows[0], table, mode="sum")  # (U, n)
        wants_gradient = any(ctx.needs_input_grad)
        index = torch.uint8 if len(windows) <= 256 else torch.int16
        at = torch.zeros_like(best, dtype=index) if wants_gradient else None
        for t, n in enumerate(n_windows[: len(windows)]):
            if t == 0:
                continue
            y = F.embedding_bag(windows[t, :n], table, mode="sum")
            if at is not None:
                # t grows, so the maximum of the two is the later one wherever y is greater.
                later = (y > best[:n]).to(at.dtype).mul_(t)
                torch.maximum(at[:n], later, out=at[:n])
            torch.maximum(best[:n], y, out=best[:n])
        ctx.save_for_backward(characters, embedding, weight, at)
        return best

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        characters, embedding, weight, at = ctx.saved_tensors
        n_filters, _, width = weight.shape
        at, d_best = at.long(), grads[0].to(embedding.dtype)  # autocast may have another
        d_table = embedding.new_zeros(width, len(embedding), n_filters)
        for j in range(width):
            # Of all windows, a filter's gradient reaches the best one's characters alone.
            d_table[j].scatter_add_(0, characters.gather(1, at + j), d_best)
        d_embedding = torch.bmm(d_table, weight.permute(2, 0, 1)).sum(dim=0)
        d_weight = torch.matmul(d_table.transpose(1, 2), embedding).permute(1, 2, 0)
        return None, None, d_embedding, d_weight
