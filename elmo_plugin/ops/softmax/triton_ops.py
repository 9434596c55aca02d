"""
The losses and their gradients on NVIDIA's GPUs, with a Triton kernel for a row of logits, which
reads them twice and writes them once. Products are those of `torch_ops`, whose operators read and
write the logits a dozen times.
"""

import torch
from torch import Tensor

from elmo_plugin.ops import backend
from elmo_plugin.ops.softmax.torch_ops import DEVICE_BLOCK_NUMBERS
from elmo_plugin.ops.triton_language import tl, triton

WORDS = tl.constexpr(1024)
"""Number of words of a row that a program reads at a time."""


@triton.jit
def _logits(row, bias, first, hit, n_words):
    """The logits of some words, which are -infinity for the hit and after the last word."""
    word = first + tl.arange(0, WORDS)
    inside = (word < n_words) & (word != hit)
    x = tl.load(row + word, mask=inside, other=0.0).to(tl.float32)
    return tl.where(inside, x + tl.load(bias + word, mask=inside, other=0.0), float("-inf"))


# Tensors that may begin anywhere in others would otherwise be compiled for, aligned and not.
@triton.jit(do_not_specialize=["bias", "hits", "true_logits", "of_rows", "d_true"])
def _row_losses(logits, bias, hits, true_logits, of_rows, d_true, n_words, KEEP: tl.constexpr):
    """
    The loss of a row. To `KEEP` its gradients, the probabilities replace the `logits`, to which the
    `bias` is not yet added.
    """
    n = tl.program_id(0).to(tl.int64)
    row = logits + n * n_words
    hit = tl.load(hits + n)
    y = tl.load(true_logits + n).to(tl.float32)
    top = y
    total = tl.exp(y - top)  # of exp(x - top)
    for first in range(0, n_words, WORDS):
        x = _logits(row, bias, first, hit, n_words)
        before = top
        top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(before - top) + tl.sum(tl.exp(x - top), axis=0)
    tl.store(of_rows + n, top + tl.log(total) - y)
    if KEEP:
        tl.store(d_true + n, tl.exp(y - top) / total - 1)
        for first in range(0, n_words, WORDS):
            p = tl.exp(_logits(row, bias, first, hit, n_words) - top) / total
            word = first + tl.arange(0, WORDS)
            tl.store(row + word, p, mask=word < n_words)


def losses(
    hidden: Tensor,
    hits: Tensor,
    weight: Tensor,
    bias: Tensor,
    true_logits: Tensor,
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """`torch_ops.losses` in Triton. Logits and probabilities have the precision of the products."""
    of_rows, d_true = torch.empty_like(true_logits), torch.empty_like(true_logits)
    d_hidden, d_bias = torch.empty_like(hidden), torch.empty_like(bias, dtype=hidden.dtype)
    bias, of_all = bias.contiguous(), (hits.contiguous(), true_logits, of_rows, d_true)
    n_rows = max(1, DEVICE_BLOCK_NUMBERS // len(weight))
    for first in range(0, len(hidden), n_rows):
        h = _rows(hidden, first, n_rows).to(weight.dtype)
        p = h @ weight.t()
        numbers = p, bias, *(_rows(x, first, n_rows) for x in of_all)
        backend.launch(_row_losses, (len(h),), *numbers, len(weight), d_weight is not None)
        if d_weight is not None:
            _rows(d_hidden, first, n_rows).copy_(p @ weight)
            of_block = p.sum(dim=0, dtype=hidden.dtype), p.t() @ h
            for gradient, x in zip((d_bias, d_weight), of_block):
                gradient.add_(x) if first else gradient.copy_(x)
    return (of_rows,) if d_weight is None else (of_rows, d_true, d_hidden, d_bias)


def _rows(x: Tensor, first: int, n: int) -> Tensor:
    """Some rows. A view of all would cost as much as a small kernel."""
    return x if n >= len(x) else x[first : first + n]
