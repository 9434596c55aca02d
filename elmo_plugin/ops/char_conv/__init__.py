"""
The convolutions of a character CNN, each followed by max-pooling over the word.

On a CPU they need no matrix product per word. There are few characters, so embedding and
convolution are precomputed as a table: row a of table_j is what character a at position j of a
window adds to each filter. A convolution is then a sum of table rows,

    y_t = sum_j table_j[a_{t+j}],     table_j = E W_j,

and its maximum over t is updated step by step, in cache, for the words that have a window at t.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmo_plugin.ops.backend import fastest
from elmo_plugin.ops.char_conv import torch_ops
from elmo_plugin.ops.char_conv.reference import Convolutions
from elmo_plugin.ops.linear import is_on_cpu
from elmo_plugin.ops.private_torch import are_plain, no_double_backward

DTYPES = (torch.float32,)
"""The precision of the kernel."""

MOST_CHARACTERS = 256
"""The longest word of the kernel, which keeps the positions of windows in a byte."""

MANY_CHARACTERS = 512
"""
The number of characters above which tables are computed for those of the batch alone. A lexicon of
code points has thousands, of which a batch has few; bytes are always fewer.
"""

_CONVOLUTION = (1,), (0,), (1,), 1
"""Stride, padding, dilation and groups of a convolution that the functions of this file compute."""

_THIS = sys.modules[__name__]
kernel = torch.ops.elmo_plugin  # its functions have the names, arguments and results of `torch_ops`


def max_of_convolutions(
    characters: Tensor, embedding: Tensor, convolutions: Convolutions
) -> Tensor:
    """
    The maximum over each word of every convolution of its embedded characters.

    `characters`: character ids, shape `(U, C)`, int64; `embedding`: E, shape `(n_characters, c)`,
    whose row 0 gets no gradient. Returns shape `(U, F)`, where F is the sum of all n.
    """
    if len(embedding) > MANY_CHARACTERS:
        # The first of them is 0, whose row gets no gradient.
        used, index = F.pad(characters.flatten(), (1, 0)).unique(return_inverse=True)
        characters, embedding = index[1:].view_as(characters), F.embedding(used, embedding)
    maxima = _MaxOfConvolutions.apply(characters, embedding, *(w for w, _ in convolutions))
    return maxima + torch.cat([bias for _, bias in convolutions])


def convolve(characters: Tensor, embedding: nn.Module, convolutions: Iterable[nn.Module]) -> Tensor:
    """
    `max_of_convolutions` of modules. If they have hooks, are not the usual ones, or are exported,
    they are called: this is the definition, which is also the fastest on a GPU.
    """
    if (weights := _weights(embedding, convolutions)) and not torch.compiler.is_exporting():
        return max_of_convolutions(characters, *weights)
    x = embedding(characters).transpose(1, 2)  # (U, c, C)
    # The gradient of `amax` takes twice as many operators, each of which reads all windows.
    return torch.cat([conv(x).max(dim=2).values for conv in convolutions], dim=1)


def frozen_convolve(
    embedding: nn.Module, convolutions: Iterable[nn.Module]
) -> Callable[[Tensor], Tensor]:
    """`convolve` as a function of characters, whose tables are computed once."""
    weights = _weights(embedding, convolutions)
    if weights is None:
        return lambda characters: convolve(characters, embedding, convolutions)
    with torch.autocast("cpu", enabled=False):
        tables = convolution_tables([weights[0], *(weight for weight, _ in weights[1])])
    biases = torch.cat([bias for _, bias in weights[1]])

    def convolve_by_tables(characters: Tensor) -> Tensor:
        characters = characters.contiguous()
        best, _ = _operators(characters, tables).best_windows(characters, tables, False)
        return best + biases

    return convolve_by_tables


def _weights(
    embedding: Any, convolutions: Iterable[Any]
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]] | None:
    """
    The weights of a character CNN on a CPU, of plain modules of the kinds that this file computes.
    """
    is_usual = (
        type(embedding) is nn.Embedding
        and embedding.max_norm is None
        and is_on_cpu(embedding.weight)
        and all(
            type(conv) is nn.Conv1d
            and (conv.stride, conv.padding, conv.dilation, conv.groups) == _CONVOLUTION
            and conv.bias is not None
            for conv in convolutions
        )
        and are_plain([embedding, *convolutions])
    )
    return (embedding.weight, [(x.weight, x.bias) for x in convolutions]) if is_usual else None


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


class _MaxOfConvolutions(torch.autograd.Function):
    """The maxima of all convolutions without their biases, shape `(U, F)`."""

    @staticmethod
    def forward(ctx: Any, characters: Tensor, *weights: Tensor) -> Tensor:
        characters, tables = characters.contiguous(), convolution_tables(weights)
        ctx.operators = _operators(characters, tables)
        best, at = ctx.operators.best_windows(characters, tables, any(ctx.needs_input_grad))
        ctx.save_for_backward(characters, at, *weights, *tables)
        return best

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        characters, at, embedding, *rest = ctx.saved_tensors
        n = len(rest) // 2
        weights, tables = rest[:n], rest[n:]
        d_best = grads[0].to(embedding.dtype).contiguous()  # autocast may use another dtype
        d_embedding, d_weights = torch.zeros_like(embedding), []
        d_tables = ctx.operators.table_gradients(d_best, characters, at, tables)
        for weight, d_table in zip(weights, d_tables):
            d_embedding += torch.bmm(d_table, weight.permute(2, 0, 1)).sum(dim=0)
            transposed = embedding.t().expand(weight.size(2), -1, -1)
            d_weights.append(torch.bmm(transposed, d_table).permute(2, 1, 0))
        d_embedding[0] = 0.0
        return None, d_embedding, *d_weights


def _operators(characters: Tensor, tables: Sequence[Tensor]) -> Any:
    """The module with `best_windows` and `table_gradients` for contiguous words of this length."""
    return fastest(_THIS, tables) if characters.size(1) <= MOST_CHARACTERS else torch_ops


def examples(dtype: torch.dtype, random: Any, size: int) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Arguments of `results`, with `size` filters of the longer windows."""
    characters = (random(40, 10) * 100).long() % 12
    characters[:20, 5:] = 0  # words with padding
    yield characters, [random(1, 12, 5), random(3, 12, size)]


def results(operators: Any, characters: Tensor, tables: Sequence[Tensor]) -> list[Tensor]:
    """The maxima of `operators` and the gradients of their tables, for comparing them."""
    best, at = operators.best_windows(characters, tables, True)
    return [best, *operators.table_gradients(best, characters, at, tables)]
