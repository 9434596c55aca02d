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

from elmo_plugin.ops.char_conv.kernel import (
    MOST_CHARACTERS,
    kernel_best_windows,
    kernel_table_gradients,
)
from elmo_plugin.ops.char_conv.reference import Convolutions, reference_max_of_convolutions
from elmo_plugin.ops.char_conv.torch_ops import best_windows, table_gradients
from elmo_plugin.ops.kernels import takes
from elmo_plugin.ops.linear import is_on_cpu
from elmo_plugin.ops.no_double_backward import no_double_backward
from elmo_plugin.ops.private_torch import is_plain

_CONVOLUTION = (1,), (0,), (1,), 1
"""Stride, padding, dilation and groups of a convolution that the functions of this file compute."""


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
        compute = kernel_best_windows if _is_for_kernel(characters, tables) else best_windows
        maxima, _ = compute(characters, tables, False)
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


class _MaxOfConvolutions(torch.autograd.Function):
    """The maxima of all convolutions without their biases, shape `(U, F)`."""

    @staticmethod
    def forward(ctx: Any, characters: Tensor, *weights: Tensor) -> Tensor:
        tables = convolution_tables(weights)
        compute = kernel_best_windows if _is_for_kernel(characters, tables) else best_windows
        best, at = compute(characters, tables, any(ctx.needs_input_grad))
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
        is_for_kernel = _is_for_kernel(characters, tables)
        compute = kernel_table_gradients if is_for_kernel else table_gradients
        for weight, d_table in zip(weights, compute(d_best, characters, at, tables)):
            d_embedding += torch.bmm(d_table, weight.permute(2, 0, 1)).sum(dim=0)
            transposed = embedding.t().expand(weight.size(2), -1, -1)
            d_weights.append(torch.bmm(transposed, d_table).permute(2, 1, 0))
        d_embedding[0] = 0.0
        return None, d_embedding, *d_weights


def _is_for_kernel(characters: Tensor, tables: Sequence[Tensor]) -> bool:
    is_float = tables[0].dtype == torch.float32
    return is_float and takes(tables[0]) and characters.size(1) <= MOST_CHARACTERS
