"""The losses and their gradients by the compiled kernel."""

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.kernels import PADDED_TO, check


def kernel_losses(
    hidden: Tensor,
    hits: Tensor,
    weight: Tensor,
    bias: Tensor,
    true_logits: Tensor,
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """
    `torch_ops.losses` by the kernel: arguments and results are the same. `hidden` is in
    fp32, and neither it nor `weight` is empty.
    """
    dim = hidden.size(1)
    padding = -dim % PADDED_TO
    rows = F.pad(weight, (0, padding)) if padding else weight  # `pad` copies even for no padding
    arguments = hidden.contiguous(), hits.contiguous(), rows.contiguous()
    biases = bias.float().contiguous(), true_logits
    if d_weight is None:
        return torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, None)[:1]
    if not padding:
        return torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, d_weight)
    padded = d_weight.new_empty(arguments[2].shape)
    found = torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, padded)
    d_weight.copy_(padded[:, :dim])
    return found


def self_test(dtype: torch.dtype) -> None:
    """Raise a `RuntimeError` if the numbers are not those of the equation."""
    generator = torch.Generator().manual_seed(0)
    n, n_words, dim = 70, 150, 40
    hidden = torch.randn(n, dim, generator=generator)
    weight = (0.3 * torch.randn(n_words, dim, generator=generator)).to(dtype)
    bias, true_logits = torch.randn(n_words, generator=generator), torch.zeros(n)
    hits = torch.arange(n) - 1
    d_weight = torch.empty(n_words, dim)
    found = kernel_losses(hidden, hits, weight, bias, true_logits, d_weight)

    logits = hidden.to(dtype).float() @ weight.float().T + bias
    logits[torch.arange(1, n), hits[1:]] = -torch.inf
    logits = torch.cat([logits, true_logits[:, None]], dim=1)
    p = logits.softmax(dim=1)
    sampled = p[:, :-1]
    expected = [
        logits.logsumexp(dim=1),
        p[:, -1] - 1,
        sampled @ weight.float(),
        sampled.sum(dim=0),
        sampled.T @ hidden,
    ]
    error = max(float((x - y).abs().max()) for x, y in zip([*found, d_weight], expected))
    if not error <= (1e-4 if dtype == torch.float32 else 0.05):
        raise RuntimeError(f"its {dtype} numbers of the softmax are wrong by {error:g}")


check(self_test)
