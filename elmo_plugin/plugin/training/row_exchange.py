"""
Exchanges row-sparse gradients between processes. NCCL cannot sum sparse tensors as Gloo can, so the
rows are exchanged as dense tensors of the same shape in all processes, which both can gather.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from elmo_plugin.checks import InputError


def check_optimizer(tables: Iterable[nn.Parameter]) -> None:
    """
    Raise an `InputError` if no optimizer has declared that it supports row-sparse gradients of
    `tables`. Most of PyTorch's optimizers do not, nor does its clipping, and the weights of several
    processes would silently diverge.
    """
    learning = (table for table in tables if table.requires_grad)
    if not all(getattr(table, "takes_sparse_gradients", False) for table in learning):
        raise InputError(
            'sparse_gradients: expected the optimizer of type "clipped_adagrad", found another; '
            "write optimizer: { type: 'clipped_adagrad' } and grad_norm: false into the trainer, "
            "because that optimizer has its own grad_norm"
        )


def mean_over_processes(gradient: Tensor) -> Tensor:
    """
    Return the mean of the processes' gradients of one table, as distributed data parallel does for
    dense ones. Every process must call this, and all results are bit-identical. `gradient` and the
    result are coalesced and sparse in the first dimension.
    """
    n_rows = torch.tensor([gradient.indices().size(1)], device=gradient.device)
    counts = torch.cat(_gather(n_rows)).tolist()
    rows = _gather_first(gradient.indices()[0], counts)
    values = _gather_first(gradient.values(), counts) / len(counts)
    table = torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False)
    return table.coalesce()


def _gather_first(own: Tensor, counts: list[int]) -> Tensor:
    """Concatenate the first elements of all processes; `counts` is their number in each process."""
    padding = [0, 0] * (own.dim() - 1) + [0, max(counts) - len(own)]
    return torch.cat([x[:n] for x, n in zip(_gather(F.pad(own, padding)), counts)])


def _gather(own: Tensor) -> list[Tensor]:
    everyones = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, own.contiguous())
    return everyones
