"""
Row-sparse gradients between processes. Gloo can sum sparse tensors and NCCL can't, so the rows are
exchanged as what both can: dense tensors of the same shape everywhere.
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F


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
