from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LSTMState(NamedTuple):
    """
    The state of a stack of L projected LSTM layers in two directions.

    memory : `Tensor`
        c of shape `(L, 2, B, D)`.
    output : `Tensor`
        h of shape `(L, 2, B, P)`, the input of the recurrence.
    """

    memory: Tensor
    output: Tensor

    @property
    def n_rows(self) -> int:
        return self.memory.size(2)

    def expand(self, n_rows: int) -> LSTMState:
        """One row, repeated `n_rows` times."""
        return LSTMState(*(x.expand(-1, -1, n_rows, -1) for x in self))

    def detach(self) -> LSTMState:
        return LSTMState(*(x.detach() for x in self))

    def take(self, n_rows: int) -> LSTMState:
        """The first `n_rows` rows; rows beyond the last are zeros, as in bilm-tf."""
        missing = n_rows - self.n_rows
        if missing <= 0:
            return LSTMState(*(x[:, :, :n_rows] for x in self))
        return LSTMState(*(torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in self))

    def put(self, rows: LSTMState) -> LSTMState:
        """This state with its first rows replaced by `rows`, as in bilm-tf."""
        return LSTMState(
            *(torch.cat([new, old[:, :, rows.n_rows :]], 2) for old, new in zip(self, rows))
        )

    def select(self, rows: Tensor) -> LSTMState:
        """The rows with these numbers, shape `(B',)`, in this order."""
        return LSTMState(*(x.index_select(2, rows) for x in self))

    def where(self, rows: Tensor, other: LSTMState) -> LSTMState:
        """The rows of `other` if the `(B,)` mask `rows` is true, and of this state if not."""
        chosen = rows.view(1, 1, -1, 1)
        return LSTMState(*(torch.where(chosen, new, old) for old, new in zip(self, other)))
