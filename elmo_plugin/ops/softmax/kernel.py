"""The losses and their gradients by the compiled kernel."""

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.backend import PADDED_TO


def losses(
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
