from typing import Any

import torch
from torch import Tensor


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(table: Tensor, rows: Tensor) -> Tensor:
        return table[rows]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        table, rows = inputs
        ctx.save_for_backward(rows)
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (rows,) = ctx.saved_tensors
        table = torch.sparse_coo_tensor(rows[None], gradient, ctx.shape, check_invariants=False)
        return table, None


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """
    `table[rows]` with a sparse gradient, which holds only `rows`, and a row twice if it was taken
    twice. PyTorch's own sparse look-up, `F.embedding`, takes only tables of vectors, not a bias.

    `table`: shape `(n, ...)`; `rows`: row numbers, shape `(k,)`. Returns shape `(k, ...)`.
    """
    return _TakeRows.apply(table, rows)
