"""
The negative log likelihoods of `SampledSoftmax`, with hand-written gradients.

The loss is the end of the model, so its gradients can be computed with it, up to a factor. This is
done in blocks of rows, while a block's probabilities are in cache; only one block of the n x S
probabilities is in memory at a time.
"""

from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.linear import matmul
from elmo_plugin.ops.no_double_backward import no_double_backward

BLOCK_NUMBERS = 2**21
"""Number of logits in a block: 8 MiB in fp32."""


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
    return _SampledLoss.apply(hidden, _accidental_hits(targets, samples), weight, bias)


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


class _SampledLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, hits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        n = len(hidden)
        true_weight, sampled_weight = weight[:n].to(hidden.dtype), weight[n:]
        true_logits = (hidden * true_weight).sum(dim=1) + bias[:n]
        loss = hidden.new_zeros(())
        d_hidden = torch.empty_like(hidden)
        d_true = torch.empty_like(true_logits)
        d_sampled_weight_t = hidden.new_zeros(sampled_weight.t().shape)
        d_sampled_bias = torch.zeros_like(bias[n:])
        sampled_weight_t = sampled_weight.t()
        n_rows = max(1, BLOCK_NUMBERS // len(sampled_weight))
        for first in range(0, n, n_rows):
            rows = slice(first, first + n_rows)
            h, y = hidden[rows].to(weight.dtype), true_logits[rows]
            p = matmul(h, sampled_weight_t).to(hidden.dtype).add_(bias[n:])
            hit = (hits[rows] >= 0).nonzero(as_tuple=True)[0]
            p[hit, hits[rows][hit]] = -torch.inf
            top = torch.maximum(p.amax(dim=1), y)
            p.sub_(top[:, None]).exp_()
            e = torch.exp(y - top)
            total = p.sum(dim=1) + e
            loss += (top + total.log() - y).sum()

            p.div_(total[:, None])
            d_true[rows] = e / total - 1
            d_sampled_bias += p.sum(dim=0)
            p = p.to(weight.dtype)
            d_hidden[rows] = matmul(p, sampled_weight)
            d_sampled_weight_t += matmul(h.t(), p)
        d_hidden.addcmul_(true_weight, d_true[:, None])
        d_weight = torch.cat([hidden * d_true[:, None], d_sampled_weight_t.t()])
        ctx.save_for_backward(d_hidden, d_weight, torch.cat([d_true, d_sampled_bias]))
        ctx.weight_dtype = weight.dtype
        return loss

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = (grads[0] * d for d in ctx.saved_tensors)
        return d_hidden, None, d_weight.to(ctx.weight_dtype), d_bias
