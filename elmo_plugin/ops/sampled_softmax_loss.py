"""
The negative log likelihoods of `SampledSoftmax`, with hand-written gradients.

The loss is the end of the model, so its gradients can be computed with it, up to a factor. This is
done in blocks of rows, while a block's probabilities are in cache; only one block of the n x S
probabilities is in memory at a time. The kernel is used if possible; other machines
and types use PyTorch's operators.
"""

from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.kernels import kernel_losses, takes
from elmo_plugin.ops.linear import is_on_cpu, matmul
from elmo_plugin.ops.no_double_backward import no_double_backward, no_forward_mode

BLOCK_NUMBERS = 2**21
"""Number of logits in a block: 8 MiB in fp32."""

DEVICE_BLOCK_NUMBERS = 2**27
"""The same on other devices, where a few large products are faster: 512 MiB in fp32."""


def sampled_softmax_loss(
    hidden: Tensor, targets: Tensor, samples: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """
    The sum over rows of log(exp(y_n) + sum_s exp(y_s)) - y_n, where y_n is the logit of row n's
    target and y_s is the logit of a sample other than this target.

    `hidden`: hidden vectors, shape `(n, P)`. `targets`: word numbers, shape `(n,)`. `samples`:
    different word numbers, shape `(S,)`. `weight`: rows of the softmax, the targets' and then the
    samples', shape `(n + S, P)`; products are computed in its precision. `bias`: their biases minus
    the logarithms of the expected counts, shape `(n + S,)`. Returns a scalar.
    """
    return _loss(hidden, _accidental_hits(targets, samples), None, weight, bias)


def softmax_loss(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """
    The sum over rows of the negative log likelihood of the target among all words. Shapes are those
    of `sampled_softmax_loss`, but `weight` and `bias` are those of all words, shapes `(V, P)` and
    `(V,)`. Returns a scalar.
    """
    return _loss(hidden, targets, targets, weight, bias)


def log_likelihoods(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The terms of `softmax_loss`, negated, shape `(n,)`, without a gradient."""
    return -_losses(hidden, targets, targets, weight, bias, gradients=False)[0]


def reference_sampled_softmax_loss(
    hidden: Tensor, targets: Tensor, samples: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """The definition of `sampled_softmax_loss`."""
    n = len(hidden)
    true = (hidden * weight[:n]).sum(dim=1) + bias[:n]
    sampled = hidden @ weight[n:].T + bias[n:]
    sampled = sampled.masked_fill(targets[:, None] == samples, -torch.inf)
    return (torch.cat([true[:, None], sampled], dim=1).logsumexp(dim=1) - true).sum()


def _accidental_hits(targets: Tensor, samples: Tensor) -> Tensor:
    """The index of each row's target among the samples, or -1. Shape `(n,)`."""
    in_order, order = samples.sort()
    at = torch.searchsorted(in_order, targets).clamp_(max=len(samples) - 1)
    return torch.where(in_order[at] == targets, order[at], -1)


def _loss(
    hidden: Tensor, hits: Tensor, targets: Tensor | None, weight: Tensor, bias: Tensor
) -> Tensor:
    """The sum of `_losses`, a scalar, with a gradient if one is needed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (hidden, weight, bias)):
        return _Loss.apply(hidden, hits, targets, weight, bias)
    return _losses(hidden, hits, targets, weight, bias, gradients=False)[0].sum()


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, hits: Tensor, targets: Tensor | None, weight: Tensor, bias: Tensor
    ) -> Tensor:
        losses, *gradients = _losses(hidden, hits, targets, weight, bias, gradients=True)
        ctx.save_for_backward(*gradients)
        ctx.weight_dtype = weight.dtype
        return losses.sum()

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = (grads[0] * d for d in ctx.saved_tensors)
        return d_hidden, None, None, d_weight.to(ctx.weight_dtype), d_bias


def _losses(
    hidden: Tensor,
    hits: Tensor,
    targets: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    gradients: bool,
) -> tuple[Tensor, ...]:
    """
    The loss of each row, shape `(n,)`, and if wanted the gradients of their sum: of `hidden`,
    `weight` and `bias`. `targets`: the targets' rows of `weight`, shape `(n,)`, if all rows are
    words to choose from; `None` if the first n rows are the targets' and the others those words.
    `hits`: the index of each row's target among the words to choose from, or -1.
    """
    no_forward_mode(hidden, weight, bias)
    first = len(hidden) if targets is None else 0
    # `x[targets]` would read a negative target from the end.
    true_weight, true_bias = (
        x[:first] if targets is None else x.index_select(0, targets) for x in (weight, bias)
    )
    true_weight = true_weight.to(hidden.dtype)
    true_logits = (hidden * true_weight).sum(dim=1) + true_bias
    d_weight = hidden.new_empty(weight.shape) if gradients else None
    is_for_kernel = takes(weight) and hidden.dtype == torch.float32 and hidden.numel() > 0
    compute = kernel_losses if is_for_kernel else losses
    found = compute(
        hidden,
        hits,
        weight[first:],
        bias[first:],
        true_logits,
        None if d_weight is None else d_weight[first:],
    )
    if d_weight is None:
        return found
    losses_of_rows, d_true, d_hidden, d_bias = found
    d_hidden.addcmul_(true_weight, d_true[:, None])
    if targets is None:
        torch.mul(hidden, d_true[:, None], out=d_weight[:first])
        return losses_of_rows, d_hidden, d_weight, torch.cat([d_true, d_bias])
    d_weight.index_add_(0, targets, hidden * d_true[:, None])
    return losses_of_rows, d_hidden, d_weight, d_bias.index_add_(0, targets, d_true)


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
    found = torch.empty_like(true_logits)
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
        found[rows] = top + total.log() - y
        if d_weight is not None:
            p.div_(total[:, None])
            d_true[rows] = e / total - 1
            d_bias += p.sum(dim=0)
            p = p.to(weight.dtype)
            d_hidden[rows] = matmul(p, weight)
            d_weight_t += matmul(h.t(), p)
    if d_weight is None:
        return (found,)
    d_weight.copy_(d_weight_t.t())
    return found, d_true, d_hidden, d_bias
