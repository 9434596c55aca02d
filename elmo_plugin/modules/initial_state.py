"""
The state from which the LSTMs read a sentence: zeros, the mean of training, or what came before.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmo_plugin.modules.lstm import LSTMState
from elmo_plugin.torch_modules import Owner, name_hook

HORIZON = 1000
"""Number of latest sentence starts that the mean covers, so that it follows the weights."""


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


class CarriesState(Owner):
    """
    A module with a `bilm` that reads batches which continue from one another. It moves with its
    carried states, and a checkpoint has the result of `resume_state` under the module's key
    `resume_state`; other weights are read from the start.
    """

    def __init__(self, **of_another_base: Any) -> None:
        super().__init__(**of_another_base)
        self.carried = CarriedState()
        name_hook(self.register_load_state_dict_pre_hook(_take_resume_state))

    @property
    def device(self) -> torch.device:
        return self.bilm.device

    def resume_state(self) -> dict[str, Tensor]:
        """The state that an exact resume of a training needs in addition to the weights."""
        return {} if self.carried.state is None else self.carried.state.stored()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        super()._apply(*args, **kwargs)
        for value in vars(self).values():
            if isinstance(value, CarriedState):
                value.state = value.state and value.state.to(self.bilm.warm_state.output)
        return self


def _take_resume_state(module: CarriesState, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Pre-hook of `load_state_dict`, which takes the `resume_state` out of a state dictionary."""
    stored = state.pop(prefix + "resume_state", None)
    module.carried.state = LSTMState.from_stored(stored, module.device) if stored else None


class WarmState(nn.Module):
    """
    A typical state at the start of a sentence, for each layer and direction: the running mean of
    the states at sentence starts in training. In training a biLM sees a state of zeros only at its
    very first words, so an isolated sentence should not start from zeros.

    # Parameters

    zero : `LSTMState`
        One row of zeros, which determines the sizes.
    """

    memory: Tensor  # the cell and, below, the hidden vector, under their names in files
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
        sums = [_over_processes((x * chosen).sum(dim=2, keepdim=True)) for x in state]
        means = torch._foreach_div(sums, n.clamp(min=1))
        torch._foreach_lerp_([self.memory, self.output], means, [share, share])
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
