"""The losses and their gradients by PyTorch's operators, in blocks of rows."""

from math import isqrt

import torch
from torch import Tensor

from elmo_plugin.ops.linear import is_on_cpu, matmul

BLOCK_NUMBERS = 2**21
"""Number of logits in a block: 8 MiB in fp32."""

DEVICE_BLOCK_NUMBERS = 2**27
"""The same on other devices, where a few large products are faster: 512 MiB in fp32."""


def losses(
    hidden: Tensor,
    hits: Tensor,
    weight: Tensor,
    bias: Tensor,
    true_logits: Tensor,
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """
    log(exp(y_n) + sum_s exp(y_ns)) - y_n of each row, shape `(n,)`. y_n are the `true_logits`,
    shape `(n,)`, and y_ns the logits of `hidden`, shape `(n, P)`, for the words s other than the
    row's hit, with `weight`, shape `(S, P)`, and `bias`, shape `(S,)`.

    If there is a `d_weight`, shape `(S, P)`, the gradient of `weight` is written to it, and the
    gradients of `true_logits`, of `hidden` (through y_ns alone) and of `bias` follow.
    """
    n, weight_t = len(hidden), weight.t()
    of_rows = torch.empty_like(true_logits)
    if d_weight is not None:
        d_hidden, d_true = torch.empty_like(hidden), torch.empty_like(true_logits)
        d_weight_t, d_bias = hidden.new_zeros(weight_t.shape), torch.zeros_like(bias)
    numbers = BLOCK_NUMBERS if is_on_cpu(hidden) else DEVICE_BLOCK_NUMBERS
    n_rows = max(1, numbers // len(weight))
    for first in range(0, n, n_rows):
        rows = slice(first, first + n_rows)
        h, y = hidden[rows].to(weight.dtype), true_logits[rows]
        p = matmul(h, weight_t).to(hidden.dtype).add_(bias)
        hit = hits[rows, None]
        at = hit.clamp(min=0)  # without an index of the hits, for which a GPU would wait
        p.scatter_(1, at, p.gather(1, at).masked_fill_(hit >= 0, -torch.inf))
        top = torch.maximum(p.amax(dim=1), y)
        p.sub_(top[:, None]).exp_()
        e = torch.exp(y - top)
        total = p.sum(dim=1) + e
        of_rows[rows] = top + total.log() - y
        if d_weight is not None:
            p.div_(total[:, None])
            d_true[rows] = e / total - 1
            d_bias += p.sum(dim=0)
            p = p.to(weight.dtype)
            d_hidden[rows] = matmul(p, weight)
            d_weight_t += matmul(h.t(), p)
    if d_weight is None:
        return (of_rows,)
    d_weight.copy_(d_weight_t.t())
    return of_rows, d_true, d_hidden, d_bias


def log_normalizers_and_entropies(
    hidden: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """
    log sum_s exp(y_ns) of each row, and the entropy in nats of the softmax of y_ns, shape `(n,)`.
    y_ns are the logits of `hidden`, shape `(n, P)`, with `weight`, shape `(S, P)`, and `bias`,
    shape `(S,)`. Without a gradient, and in blocks of rows and words, so that the memory does not
    grow with S.
    """
    numbers = BLOCK_NUMBERS if is_on_cpu(hidden) else DEVICE_BLOCK_NUMBERS
    n_rows = isqrt(numbers // 16)
    blocks = [
        _of_rows(h, weight, bias, numbers // n_rows) for h in hidden.to(weight.dtype).split(n_rows)
    ]
    normalizers, entropies = zip(*blocks)
    return torch.cat(normalizers).to(hidden.dtype), torch.cat(entropies).to(hidden.dtype)


def _of_rows(h: Tensor, weight: Tensor, bias: Tensor, n_words: int) -> tuple[Tensor, Tensor]:
    """The same for one block of rows, in blocks of words."""
    bias = bias.to(torch.promote_types(bias.dtype, torch.float32))  # sums overflow in float16
    top = torch.full_like(bias[:1], torch.finfo(bias.dtype).min).expand(len(h))
    total = weighted = torch.zeros_like(top)  # sums of exp(y - top), and of (y - top) exp(y - top)
    for w, b in zip(weight.split(n_words), bias.split(n_words)):
        y = matmul(h, w.t()).to(bias.dtype).add_(b)
        before, top = top, torch.maximum(top, y.amax(dim=1))
        scale = torch.exp(before - top)
        weighted = scale * (weighted + total * (before - top))
        total = scale * total
        e = torch.exp(y.sub_(top[:, None]))
        total = total + e.sum(dim=1)
        weighted = weighted + e.mul_(y).sum(dim=1)
    return top + total.log(), total.log() - weighted / total
