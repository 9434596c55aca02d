"""
The convolutions of a character CNN, each followed by max-pooling over the word.

On a CPU they need no matrix product per word. There are few characters, so embedding and
convolution are precomputed as a table: row a of table_j is what character a at position j of a
window adds to each filter. A convolution is then a sum of table rows,

    y_t = sum_j table_j[a_{t+j}],     table_j = E W_j,

and its maximum over t is updated step by step, in cache, for the words that have a window at t.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.linear import is_on_cpu
from elmo_plugin.ops.no_double_backward import no_double_backward

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

    `characters`: character ids, shape `(U, C)`, int64; `embedding`: E, shape `(n_characters, c)`;
    `tables`: `convolution_tables`, if already computed; they have no gradient. Returns shape
    `(U, F)`, where F is the sum of all n.
    """
    if not is_on_cpu(characters):
        return reference_max_of_convolutions(characters, embedding, convolutions)
    words, place, n_windows = sort_by_length(characters)
    if tables is None:
        maxima = [
            _MaxOfConvolution.apply(words, n_windows, embedding, weight)
            for weight, _ in convolutions
        ]
    else:
        maxima = [_best_windows(words, n_windows, table)[0] for table in tables]
    biases = torch.cat([bias for _, bias in convolutions])
    return (torch.cat(maxima, dim=1) + biases)[place]


def convolution_tables(weights: Sequence[Tensor]) -> list[Tensor]:
    """
    The table of each convolution. `weights`: E and the convolutions' weights. Returns shapes
    `(w, n_characters, n)`.
    """
    embedding, *of_convolutions = weights
    return [embedding @ weight.permute(2, 1, 0) for weight in of_convolutions]


def reference_max_of_convolutions(
    characters: Tensor, embedding: Tensor, convolutions: Convolutions
) -> Tensor:
    """The definition of `max_of_convolutions`, which is also the fastest on a GPU."""
    x = F.embedding(characters, embedding).transpose(1, 2)  # (U, c, C)
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


class _MaxOfConvolution(torch.autograd.Function):
    """
    The maximum of one convolution without bias, shape `(U, n)`, of words from `sort_by_length`.
    """

    @staticmethod
    def forward(
        ctx: Any, characters: Tensor, n_windows: Sequence[int], embedding: Tensor, weight: Tensor
    ) -> Tensor:
        [table] = convolution_tables([embedding, weight])
        best, at = _best_windows(characters, n_windows, table, any(ctx.needs_input_grad))
        ctx.save_for_backward(characters, embedding, weight, at)
        return best

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        characters, embedding, weight, at = ctx.saved_tensors
        n_filters, _, width = weight.shape
        at, d_best = at.long(), grads[0].to(embedding.dtype)  # autocast may use another dtype
        d_table = embedding.new_zeros(width, len(embedding), n_filters)
        for j in range(width):
            # A filter's gradient flows only to the characters of the best window.
            d_table[j].scatter_add_(0, characters.gather(1, at + j), d_best)
        d_embedding = torch.bmm(d_table, weight.permute(2, 0, 1)).sum(dim=0)
        d_weight = torch.matmul(d_table.transpose(1, 2), embedding).permute(1, 2, 0)
        return None, None, d_embedding, d_weight


def _best_windows(
    characters: Tensor, n_windows: Sequence[int], table: Tensor, wants_places: bool = False
) -> tuple[Tensor, Tensor | None]:
    """
    The maximum of a convolution without its bias and, if needed, the position of its window, both
    of shape `(U, n)`. `table`: shape `(w, n_characters, n)`.
    """
    width, n_characters, _ = table.shape
    table = table.flatten(0, 1)
    offsets = torch.arange(width) * n_characters
    windows = (characters.unfold(1, width, 1) + offsets).transpose(0, 1).contiguous()
    best = F.embedding_bag(windows[0], table, mode="sum")  # (U, n)
    index = torch.uint8 if len(windows) <= 256 else torch.int16
    at = torch.zeros_like(best, dtype=index) if wants_places else None
    for t, n in enumerate(n_windows[: len(windows)]):
        if t == 0:
            continue
        y = F.embedding_bag(windows[t, :n], table, mode="sum")
        if at is not None:
            # t grows, so the maximum of both indices is the later one if y is greater.
            later = (y > best[:n]).to(at.dtype).mul_(t)
            torch.maximum(at[:n], later, out=at[:n])
        torch.maximum(best[:n], y, out=best[:n])
    return best, at
