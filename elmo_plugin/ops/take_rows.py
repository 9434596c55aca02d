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
    `table[rows]`, where the gradient of `table` is sparse: it holds `rows` alone, a row that was
    taken twice twice. PyTorch's own sparse look-up, `F.embedding`, takes tables of vectors only,
    which a bias is not.

    # Parameters

    table : `Tensor`
        Shape `(n, ...)`.
    rows : `Tensor`
        Shape `(k,)`.

    # Returns

    `Tensor`
        Shape `(k, ...)`.
    """
    return _TakeRows.apply(table, rows)
