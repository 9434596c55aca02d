"""
The negative log likelihoods of `SampledSoftmax`, with hand-written gradients.

The loss is the end of the model, so its gradients can be computed with it, up to a factor. This is
done in blocks of rows, while a block's probabilities are in cache; only some blocks of the n x S
probabilities are in memory at a time. The kernel is used if possible; other machines and types use
PyTorch's operators.
"""

from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.backend import check, no_double_backward, no_forward_mode, takes
from elmo_plugin.ops.softmax import kernel, torch_ops
from elmo_plugin.ops.softmax.reference import reference_sampled_softmax_loss

__all__ = [
    "entropies",
    "log_likelihoods",
    "reference_sampled_softmax_loss",
    "sampled_softmax_loss",
    "softmax_loss",
]


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
    if _is_for_kernel(hidden, weight):
        return -_losses(hidden, targets, targets, weight, bias, gradients=False)[0]
    no_forward_mode(hidden, weight, bias)
    logits = (hidden * weight.index_select(0, targets).to(hidden.dtype)).sum(dim=1)
    logits += bias.index_select(0, targets)
    return logits - torch_ops.log_normalizers_and_entropies(hidden, weight, bias)[0]


def entropies(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """
    The entropy in nats of the distribution over all words for each row of `hidden`, shape `(n,)`,
    without a gradient. Shapes are those of `softmax_loss`.
    """
    no_forward_mode(hidden, weight, bias)
    return torch_ops.log_normalizers_and_entropies(hidden, weight, bias)[1]


def _accidental_hits(targets: Tensor, samples: Tensor) -> Tensor:
    """The index of each row's target among the samples, or -1. Shape `(n,)`."""
    in_order, order = samples.sort()
    at = torch.searchsorted(in_order, targets).clamp_(max=len(samples) - 1)
    return torch.where(in_order[at] == targets, order[at], -1)


def _loss(*arguments: Any) -> Tensor:
    """The sum of `_losses`, a scalar, with a gradient if one is needed."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments):
        return _Loss.apply(*arguments)
    return _losses(*arguments, gradients=False)[0].sum()


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        losses, *gradients = _losses(*arguments, gradients=True)
        ctx.save_for_backward(*gradients)
        return losses.sum()

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = (grads[0] * d for d in ctx.saved_tensors)
        return d_hidden, None, None, d_weight, d_bias


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
    way: Any = kernel if _is_for_kernel(hidden, weight) else torch_ops
    d_others = None if d_weight is None else d_weight[first:]
    found = way.losses(hidden, hits, weight[first:], bias[first:], true_logits, d_others)
    if d_weight is None:
        return found
    losses_of_rows, d_true, d_hidden, d_bias = found
    d_hidden.addcmul_(true_weight, d_true[:, None])
    if targets is None:
        torch.mul(hidden, d_true[:, None], out=d_weight[:first])
        return losses_of_rows, d_hidden, d_weight, torch.cat([d_true, d_bias])
    d_weight.index_add_(0, targets, hidden * d_true[:, None])
    return losses_of_rows, d_hidden, d_weight, d_bias.index_add_(0, targets, d_true)


def _is_for_kernel(hidden: Tensor, weight: Tensor) -> bool:
    return takes(weight) and hidden.dtype == torch.float32 and hidden.numel() > 0


def _example(dtype: torch.dtype, random: Any) -> tuple[Tensor, ...]:
    n, n_words, dim = 70, 150, 40
    weight = (0.3 * random(n_words, dim)).to(dtype)
    hidden, hits = random(n, dim), torch.arange(n) - 1
    return hidden, hits, weight, random(n_words), random(n), torch.empty(n_words, dim)


def _all_of(losses: Any) -> Any:
    """The function `losses` with its last argument, the gradient of the weight, as a result."""
    return lambda *arguments: (*losses(*arguments), arguments[-1].clone())


SELF_TEST = _all_of(kernel.losses), _all_of(torch_ops.losses), _example
check(*SELF_TEST)
