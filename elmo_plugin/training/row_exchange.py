"""
Row-sparse gradients between processes. Gloo can sum sparse tensors and NCCL can't, so the rows are
exchanged as what both can: dense tensors of the same shape everywhere.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.nn import functional as F


def leave_to_optimizer(model: nn.Module, tables: Iterable[nn.Parameter]) -> None:
    """Has PyTorch's distributed data parallel leave the exchange of `tables` to the optimizer."""
    left = set(map(id, tables))
    # It is told so by this attribute, for want of an argument.
    model._ddp_params_and_buffers_to_ignore = [  # type: ignore[assignment]
        name for name, parameter in model.named_parameters() if id(parameter) in left
    ]


def check_optimizer(tables: Iterable[nn.Parameter]) -> None:
    """
    # Raises

    `ConfigurationError`
        Where no optimizer has said that it takes row-sparse gradients of `tables`. Most of
        PyTorch's don't, nor does its clipping; and several processes would go apart without a word.
    """
    learning = (table for table in tables if table.requires_grad)
    if not all(getattr(table, "takes_sparse_gradients", False) for table in learning):
        raise ConfigurationError(
            'sparse_gradients: expected the optimizer of type "clipped_adagrad", found another; '
            "write optimizer: { type: 'clipped_adagrad' } and grad_norm: false into the trainer, "
            "for it clips by a grad_norm of its own"
        )


def mean_over_processes(gradient: Tensor) -> Tensor:
    """
    The mean of the processes' gradients of one table, as distributed data parallel has it for dense
    ones. Every process must call this, and each gets the same bits.

    # Parameters

    gradient : `Tensor`
        Sparse in its first dimension.

    # Returns

    `Tensor`
        Likewise, and coalesced.
    """
    gradient = gradient.coalesce()
    n_rows = torch.tensor([gradient.indices().size(1)], device=gradient.device)
    counts = torch.cat(_gather(n_rows)).tolist()
    rows = _gather_first(gradient.indices()[0], counts)
    values = _gather_first(gradient.values(), counts) / len(counts)
    table = torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False)
    return table.coalesce()


def _gather_first(own: Tensor, counts: list[int]) -> Tensor:
    """One below the other, the `counts` elements that the processes have."""
    padding = [0, 0] * (own.dim() - 1) + [0, max(counts) - len(own)]
    return torch.cat([x[:n] for x, n in zip(_gather(F.pad(own, padding)), counts)])


def _gather(own: Tensor) -> list[Tensor]:
    everyones = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, own.contiguous())
    return everyones
