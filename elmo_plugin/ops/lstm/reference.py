"""The equation of `ProjectedLSTM`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class LSTMWeights(NamedTuple):
    """
    The weights of a `ProjectedLSTM`, in both directions. The matrices may be packed.

    input : `Tensor`
        W_x of shape `(2, input_dim, 4D)`, with the gates in the order i, j, f, o.
    recurrent : `Tensor`
        W_h of shape `(2, P, 4D)`.
    bias : `Tensor`
        b of shape `(2, 4D)`, including the 1 that is added to the forget gate.
    projection : `Tensor | None`
        W_P of shape `(2, D, P)`.
    cell_clip : `float | None`
    proj_clip : `float | None`
    """

    input: Any
    recurrent: Any
    bias: Tensor
    projection: Any
    cell_clip: float | None
    proj_clip: float | None

    def matrices(self) -> list[Any]:
        return [x for x in (self.input, self.recurrent, self.projection) if x is not None]

    def map_matrices(self, function: Callable[[Any, int], Any]) -> LSTMWeights:
        """Apply `function` to each matrix and its number of gates."""
        projection = None if self.projection is None else function(self.projection, 1)
        return self._replace(
            input=function(self.input, 4),
            recurrent=function(self.recurrent, 4),
            projection=projection,
        )


class Reading(NamedTuple):
    """
    The input and the weights of a layer: the arguments of `lstm_scan`, with the batch size of each
    step.
    """

    inputs: Tensor
    cell: Tensor
    hidden: Tensor
    weights: LSTMWeights
    batch_sizes: Sequence[int]


def reference_lstm(
    inputs: Tensor,
    cell: Tensor,
    hidden: Tensor,
    weights: LSTMWeights,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition of `lstm_scan` and of the kernel."""
    n_steps, n_rows = inputs.shape[1:3]
    c, h, outputs = cell, hidden, []
    for t, n in enumerate(batch_sizes or [n_rows] * n_steps):
        gates = inputs[:, t, :n] @ weights.input + weights.bias[:, None]
        c_t, h_t = reference_step(gates, c[:, :n], h[:, :n], weights)
        outputs.append(torch.nn.functional.pad(h_t, (0, 0, 0, n_rows - n)))
        c = torch.cat([c_t, c[:, n:]], dim=1)
        h = torch.cat([h_t, h[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), c, h


def reference_step(
    gates: Tensor, c: Tensor, h: Tensor, weights: LSTMWeights
) -> tuple[Tensor, Tensor]:
    """
    One time step of n rows: c_t of shape `(2, n, D)` and h_t of shape `(2, n, P)`. `gates` is
    x_t W_x + b, of shape `(2, n, 4D)`, and `c` and `h` are those of the step before.
    """

    def clip(x: Tensor, bound: float | None) -> Tensor:
        return x if bound is None else x.clamp(-bound, bound)

    i, j, f, o = (gates + h @ weights.recurrent).chunk(4, dim=-1)
    c_t = clip(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j), weights.cell_clip)
    h_t = torch.sigmoid(o) * torch.tanh(c_t)
    if weights.projection is not None:
        h_t = clip(h_t @ weights.projection, weights.proj_clip)
    return c_t, h_t
