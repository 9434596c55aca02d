"""The state of the LSTMs: between two batches, and at the start of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

HORIZON = 1000
"""Number of latest sentence starts that the mean covers, so that it follows the weights."""


class LSTMState(NamedTuple):
    """
    The state of a stack of L projected LSTM layers in two directions.

    cell : `Tensor`
        c of shape `(L, 2, B, D)`.
    hidden : `Tensor`
        h of shape `(L, 2, B, P)`, the input of the recurrence.
    """

    cell: Tensor
    hidden: Tensor

    @property
    def batch_size(self) -> int:
        return self.cell.size(2)

    def stored(self) -> dict[str, Tensor]:
        """The tensors by their names in checkpoints and files."""
        return {"memory": self.cell, "output": self.hidden}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Tensor], device: torch.device) -> LSTMState:
        """The inverse of `stored()`, on `device`."""
        return cls(stored["memory"].to(device), stored["output"].to(device))

    def expand(self, batch_size: int) -> LSTMState:
        """One row, repeated `batch_size` times."""
        return LSTMState(*(x.expand(-1, -1, batch_size, -1) for x in self))

    def take(self, batch_size: int) -> LSTMState:
        """The first `batch_size` rows; rows beyond the last are zeros, as in bilm-tf."""
        missing = batch_size - self.batch_size
        if missing <= 0:
            return LSTMState(*(x[:, :, :batch_size] for x in self))
        return LSTMState(*(torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in self))

    def put(self, rows: LSTMState) -> LSTMState:
        """This state with its first rows replaced by `rows`, as in bilm-tf."""
        return LSTMState(
            *(torch.cat([new, old[:, :, rows.batch_size :]], 2) for old, new in zip(self, rows))
        )

    def select(self, rows: Tensor) -> LSTMState:
        """The rows with these indices, shape `(B',)`, in this order."""
        return LSTMState(*(x.index_select(2, rows) for x in self))

    def where(self, rows: Tensor, other: LSTMState) -> LSTMState:
        """
        The rows of `other` where the mask `rows`, shape `(B,)`, is true, and of this state
        elsewhere.
        """
        chosen = rows.view(1, 1, -1, 1)
        return LSTMState(*(torch.where(chosen, new, old) for old, new in zip(self, other)))


class CarriedState:
    """
    The state of each row after the last batch, with which the next batch continues. It is not a
    buffer, because distributed training overwrites the buffers of all processes except one.
    """

    def __init__(self) -> None:
        self.state: LSTMState | None = None  # before the first batch

    def put(self, after: LSTMState) -> None:
        """Store the state after a batch. More rows of earlier batches stay, as in bilm-tf."""
        self.state = after if self.state is None else self.state.put(after)

    def map(self, function: Callable[[Tensor], Tensor]) -> None:
        self.state = self.state and LSTMState(*map(function, self.state))

    def resume_state(self) -> dict[str, Tensor]:
        """What an exact resume of a training needs in addition to the weights."""
        return {} if self.state is None else self.state.stored()


def take_resume_state(module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """
    Pre-hook of `load_state_dict` for a module with a `carried` state on a `device`. Removes the
    result of `resume_state` from a checkpoint's state dictionary.
    """
    if stored := state_dict.pop(prefix + "resume_state", None):
        module.carried.state = LSTMState.from_stored(stored, module.device)


class WarmState(nn.Module):
    """
    A typical state at the start of a sentence, for each layer and direction: the running mean of
    the states at sentence starts in training. In training a biLM sees a state of zeros only at its
    very first words, so an isolated sentence should not start from zeros.

    # Parameters

    zero : `LSTMState`
        One row of zeros, which determines the sizes.
    """

    memory: Tensor
    output: Tensor
    count: Tensor

    def __init__(self, zero: LSTMState) -> None:
        super().__init__()
        self.register_buffer("memory", zero.cell.clone())
        self.register_buffer("output", zero.hidden.clone())
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, batch_size: int) -> LSTMState:
        """The same state for each of `batch_size` rows."""
        return LSTMState(self.memory, self.output).expand(batch_size)

    @torch.no_grad()
    def observe(self, state: LSTMState, rows: Tensor) -> None:
        """
        Add the rows of `state`, shape `(L, 2, B, ...)`, at a sentence's start to the mean, which is
        plain at first and then exponential over about `HORIZON` starts. `rows`: mask, shape `(B,)`,
        true if the row is about to read a sentence's first token. In distributed training the rows
        of all processes are added, and each process must call this.
        """
        chosen = rows.view(1, 1, -1, 1)
        n = _over_processes(rows.sum())
        share = n / torch.minimum(self.count + n, n.clamp(min=HORIZON)).clamp(min=1)
        for mean, found in zip((self.memory, self.output), state):
            total = _over_processes((found * chosen).sum(dim=2, keepdim=True))
            mean.lerp_(total / n.clamp(min=1), share)
        self.count.add_(n)

    def set(self, state: LSTMState) -> None:
        """Replace the observed mean by `state`, which has one row."""
        self.memory.copy_(state.cell)
        self.output.copy_(state.hidden)


def _over_processes(x: Tensor) -> Tensor:
    """The sum of `x` over all processes, computed in place."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(x)
    return x
