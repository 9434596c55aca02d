from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmo_plugin.modules.lstm_state import LSTMState

if TYPE_CHECKING:
    from elmo_plugin.modules.bilm import BiLM

N_BOUNDARIES = 16
"""After so many, one more changes nothing that matters."""

HORIZON = 1000
"""Over how many of the latest sentence starts the mean is taken, so that it follows the weights."""


class WarmState(nn.Module):
    """
    A typical state at the start of a sentence, one for each layer and direction: the running mean
    of the states that training found there. A biLM never saw a state of zeros but at its very
    first words, so a sentence that stands alone should not start from one.

    # Parameters

    zero : `LSTMState`
        One row of zeros, for its sizes.
    """

    memory: Tensor
    output: Tensor
    count: Tensor

    def __init__(self, zero: LSTMState) -> None:
        super().__init__()
        self.register_buffer("memory", zero.memory.clone())
        self.register_buffer("output", zero.output.clone())
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, n_rows: int) -> LSTMState:
        """The state, for `n_rows` rows."""
        return LSTMState(self.memory, self.output).expand(n_rows)

    @torch.no_grad()
    def observe(self, state: LSTMState, rows: Tensor) -> None:
        """
        Takes in the rows of `state` that stand at a sentence's start, those of all processes, each
        of which must call this. A plain mean at first, then an exponential one over about `HORIZON`
        starts.

        # Parameters

        state : `LSTMState`
            Of B rows.
        rows : `Tensor`
            Shape `(B,)`, true where the row is about to read a sentence's first token.
        """
        chosen = rows.view(1, 1, -1, 1)
        n = _over_processes(rows.sum())
        share = n / torch.minimum(self.count + n, n.clamp(min=HORIZON)).clamp(min=1)
        for mean, found in zip((self.memory, self.output), state):
            total = _over_processes((found * chosen).sum(dim=2, keepdim=True))
            mean.lerp_(total / n.clamp(min=1), share)
        self.count.add_(n)

    def set(self, state: LSTMState) -> None:
        """`state`: one row, in place of what was observed."""
        self.memory.copy_(state.memory)
        self.output.copy_(state.output)


def _over_processes(x: Tensor) -> Tensor:
    """The sum of every process's `x`, in place; where there is one alone, its own."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(x)
    return x


@torch.no_grad()
def warm_up(bilm: BiLM) -> LSTMState:
    """
    A state for weights that came without one: where `N_BOUNDARIES` empty sentences, `<S> </S>`
    again and again, lead from zeros. One row.
    """
    boundaries = bilm.boundaries
    begin_end = torch.tensor([[0, 1] * N_BOUNDARIES], device=boundaries.device)
    _, state = bilm(boundaries, begin_end, 1 - begin_end, bilm.bilstm.zero_state(1))
    return state
