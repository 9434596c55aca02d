"""
The negative log likelihoods of `SampledSoftmax`, with hand-written gradients.

The loss is the end of the model, so its gradients can be computed with it, up to a factor. This is
done in blocks of rows, while a block's probabilities are in cache; only some blocks of the n x S
probabilities are in memory at a time. The compiled kernel is used if possible, `triton_ops.py` on
NVIDIA's GPUs, and PyTorch's operators on other machines and for other types.
"""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.backend import PADDED_TO, fastest
from elmo_plugin.ops.private_torch import no_double_backward, no_forward_mode
from elmo_plugin.ops.softmax import torch_ops
from elmo_plugin.ops.softmax.reference import reference_sampled_softmax_loss

__all__ = [
    "entropies",
    "log_likelihoods",
    "reference_sampled_softmax_loss",
    "sampled_softmax_loss",
    "softmax_loss",
]

DTYPES = torch.float32, torch.bfloat16
"""The precisions of products of the kernels."""

_THIS = sys.modules[__name__]


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
    return _loss(_sampled_losses, hidden, _accidental_hits(targets, samples), weight, bias)


def softmax_loss(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """
    The sum over rows of the negative log likelihood of the target among all words. Shapes are those
    of `sampled_softmax_loss`, but `weight` and `bias` are those of all words, shapes `(V, P)` and
    `(V,)`. Returns a scalar.
    """
    return _loss(_full_losses, hidden, targets, weight, bias)


def log_likelihoods(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The terms of `softmax_loss`, negated, shape `(n,)`, without a gradient."""
    if _operators(hidden, weight) is kernel:
        return -_full_losses(hidden, targets, weight, bias, gradients=False)[0]
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
    at = torch.searchsorted(in_order[:-1], targets)
    return order[at].masked_fill_(in_order[at] != targets, -1)


def _loss(losses: Any, *arguments: Tensor) -> Tensor:
    """The sum of the losses of rows, a scalar, with a gradient if one is needed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in arguments):
        return _Loss.apply(losses, *arguments)
    return losses(*arguments, gradients=False)[0].sum()


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, losses: Any, *arguments: Tensor) -> Tensor:
        of_rows, *gradients = losses(*arguments, gradients=True)
        ctx.save_for_backward(*gradients)
        return of_rows.sum()

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = torch._foreach_mul(ctx.saved_tensors, grads[0])
        return None, d_hidden, None, d_weight, d_bias


def _sampled_losses(
    hidden: Tensor, hits: Tensor, weight: Tensor, bias: Tensor, *, gradients: bool
) -> tuple[Tensor, ...]:
    """
    The terms of `sampled_softmax_loss`, shape `(n,)`, and if wanted the gradients of their sum: of
    `hidden`, `weight` and `bias`. `hits`: the index of each row's target among the samples, or -1.
    """
    n = len(hidden)
    d_weight = hidden.new_empty(weight.shape) if gradients else None
    d_samples = None if d_weight is None else d_weight[n:]
    true, others = (weight[:n], bias[:n]), (weight[n:], bias[n:])
    losses, *of_gradients = _losses(hidden, hits, true, others, d_samples)
    if d_weight is None:
        return (losses,)
    d_true, d_hidden, d_bias = of_gradients
    torch.mul(hidden, d_true[:, None], out=d_weight[:n])
    return losses, d_hidden, d_weight, torch.cat([d_true, d_bias])


def _full_losses(
    hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, *, gradients: bool
) -> tuple[Tensor, ...]:
    """The terms of `softmax_loss` and, if wanted, their gradients, as `_sampled_losses`."""
    d_weight = hidden.new_empty(weight.shape) if gradients else None
    # `x[targets]` would read a negative target from the end.
    true = weight.index_select(0, targets), bias.index_select(0, targets)
    losses, *of_gradients = _losses(hidden, targets, true, (weight, bias), d_weight)
    if d_weight is None:
        return (losses,)
    d_true, d_hidden, d_bias = of_gradients
    d_weight.index_add_(0, targets, hidden * d_true[:, None])
    return losses, d_hidden, d_weight, d_bias.index_add_(0, targets, d_true)


def _losses(
    hidden: Tensor,
    hits: Tensor,
    true: tuple[Tensor, Tensor],
    others: tuple[Tensor, Tensor],
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """
    The loss of each row, shape `(n,)`. `true`: the weight and bias of each row's target, shapes
    `(n, P)` and `(n,)`. `others`: those of the words among which it is, except its hit, shapes
    `(S, P)` and `(S,)`. If there is a `d_weight`, the gradient of their weight is written to it,
    and those of the targets' logits, of `hidden` and of their bias follow.
    """
    (true_weight, true_bias), (weight, bias) = true, others
    no_forward_mode(hidden, weight, bias)
    true_weight = true_weight.to(hidden.dtype)
    true_logits = (hidden * true_weight).sum(dim=1) + true_bias
    losses = _operators(hidden, weight).losses
    of_rows, *gradients = losses(hidden, hits, weight, bias, true_logits, d_weight)
    if gradients:
        d_true, d_hidden, _ = gradients
        d_hidden.addcmul_(true_weight, d_true[:, None])
    return of_rows, *gradients


def _operators(hidden: Tensor, weight: Tensor) -> Any:
    """The module with `losses` for these tensors: kernels are for logits in fp32."""
    is_usual = hidden.dtype == torch.float32 and hidden.numel() > 0
    return fastest(_THIS, [weight]) if is_usual else torch_ops


def _kernel_losses(
    hidden: Tensor,
    hits: Tensor,
    weight: Tensor,
    bias: Tensor,
    true_logits: Tensor,
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """
    `torch_ops.losses` by the kernel: arguments and results are the same. `hidden` is in fp32, and
    neither it nor `weight` is empty.
    """
    dim = hidden.size(1)
    padding = -dim % PADDED_TO
    rows = F.pad(weight, (0, padding)) if padding else weight  # `pad` copies even for no padding
    arguments = hidden.contiguous(), hits.contiguous(), rows.contiguous()
    biases = bias.float().contiguous(), true_logits
    if d_weight is None:
        return torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, None)[:1]
    to = d_weight.new_empty(rows.shape) if padding else d_weight
    results = torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, to)
    if padding:
        d_weight.copy_(to[:, :dim])
    return results


kernel: Any = SimpleNamespace(losses=_kernel_losses)


def examples(dtype: torch.dtype, random: Any, size: int) -> Iterator[tuple[Tensor, ...]]:
    """Arguments of `results`, with `size` words."""
    n, dim = 70, 70
    weight = (0.3 * random(size, dim)).to(dtype)
    hidden, hits = random(n, dim), torch.arange(n) - 1
    yield hidden, hits, weight, random(size), random(n)


def results(operators: Any, *arguments: Tensor) -> list[Tensor]:
    """The losses of `operators` and all gradients, for comparing them."""
    d_weight = torch.empty(arguments[2].shape)
    return [*operators.losses(*arguments, d_weight), d_weight]
