import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmo_plugin.modules.lstm import LSTMState

HORIZON = 1000
"""Latest sentence starts over which the mean is taken, so that it follows the weights."""


class WarmState(nn.Module):
    """
    A typical state at the start of a sentence, one for each layer and direction: the running mean
    of the states that training found there. A biLM sees a state of zeros only at its very first
    words, so a sentence that stands alone should not start from zeros.

    # Parameters

    zero : `LSTMState`
        One row of zeros, which gives the sizes.
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
        Adds the rows of `state` at a sentence's start to the mean: a plain mean at first, then an
        exponential one over about `HORIZON` starts. In distributed training the rows of all
        processes are added, and each process must call this.

        # Parameters

        state : `LSTMState`
            States, shape `(L, 2, B, ..)`.
        rows : `Tensor`
            Mask of shape `(B,)`, true if the row is about to read a sentence's first token.
        """
        chosen = rows.view(1, 1, -1, 1)
        n = _over_processes(rows.sum())
        share = n / torch.minimum(self.count + n, n.clamp(min=HORIZON)).clamp(min=1)
        for mean, found in zip((self.memory, self.output), state):
            total = _over_processes((found * chosen).sum(dim=2, keepdim=True))
            mean.lerp_(total / n.clamp(min=1), share)
        self.count.add_(n)

    def set(self, state: LSTMState) -> None:
        """Replaces the observed mean by `state`, which has one row."""
        self.memory.copy_(state.cell)
        self.output.copy_(state.hidden)


def _over_processes(x: Tensor) -> Tensor:
    """The sum of every process's `x`, in place; `x` itself if there is only one process."""
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(x)
    return x
