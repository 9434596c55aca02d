"""
The clipped, projected LSTM (Sak et al. 2014), once as the plain equation and once fast.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_plugin.ops.lstm import lstm_scan
from elmo_plugin.ops.packed_weights import PackedWeightCache


class ProjectedLSTM(nn.Module):
    """
    One LSTM layer in two independent directions, side by side. Index 0 of every parameter's first
    axis is the forward direction, index 1 the backward one; each reads its own row of text.

        i, j, f, o = x_t W_x + h_{t-1} W_h + b
        c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j), cell_clip)
        h_t = clip((sigmoid(o) * tanh(c_t)) W_P, proj_clip)

    as in TensorFlow's `LSTMCell`, which computed the original ELMo (peephole-free). The 1 that is
    added to the forget gate is no part of `b`. Without a projection h_t is not clipped.

    # Parameters

    input_dim : `int`
        Size of x_t.
    dim : `int`
        D, size of the memory c_t.
    projection_dim : `int`
        P, size of the output h_t. Where P = D there is no projection.
    cell_clip : `float | None`
        Bound on each number of the memory; `None` for no bound.
    proj_clip : `float | None`
        Bound on each number of the projected output; `None` for no bound.
    """

    def __init__(
        self,
        *,
        input_dim: int,
        dim: int,
        projection_dim: int,
        cell_clip: float | None,
        proj_clip: float | None,
    ) -> None:
        super().__init__()
        self.precision: torch.dtype | None = None  # that of the weights
        self.packed_weights = PackedWeightCache()
        self.dim = dim
        self.projection_dim = projection_dim
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.input_weight = nn.Parameter(torch.empty(2, input_dim, 4 * dim))
        self.recurrent_weight = nn.Parameter(torch.empty(2, projection_dim, 4 * dim))
        self.bias = nn.Parameter(torch.empty(2, 4 * dim))
        self.projection_weight = (
            nn.Parameter(torch.empty(2, dim, projection_dim)) if projection_dim != dim else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """TensorFlow's default, Glorot uniform over the joint `(input + P, 4D)` kernel."""
        fan_in, fan_out = self.input_weight.size(1) + self.projection_dim, 4 * self.dim
        bound = (6 / (fan_in + fan_out)) ** 0.5
        nn.init.uniform_(self.input_weight, -bound, bound)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            bound = (6 / (self.dim + self.projection_dim)) ** 0.5
            nn.init.uniform_(self.projection_weight, -bound, bound)

    def forward(
        self,
        inputs: Tensor,
        memory: Tensor,
        output: Tensor,
        batch_sizes: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        # Parameters

        inputs : `Tensor`
            Shape `(2, T, B, input_dim)`, each direction in its own reading order.
        memory : `Tensor`
            c_0, shape `(2, B, D)`. No gradient flows into it.
        output : `Tensor`
            h_0, shape `(2, B, P)`. No gradient flows into it.
        batch_sizes : `Sequence[int] | None`
            Of length T, never rising: at step t only the first `batch_sizes[t]` rows are read (as
            in `torch.nn.utils.rnn.PackedSequence`, rows sorted by falling length). By default all.

        # Returns

        `tuple[Tensor, Tensor, Tensor]`
            h_1 .. h_T, shape `(2, T, B, P)`, zeros where nothing was read; and each row's c and h
            after its last step, shapes `(2, B, D)` and `(2, B, P)`.
        """
        weights = [self.input_weight, self.recurrent_weight]
        if self.projection_weight is not None:
            weights.append(self.projection_weight)
        input_weight, recurrent_weight, *projection_weight = self.packed_weights(
            weights, self.precision
        )
        return lstm_scan(
            inputs,
            memory,
            output,
            input_weight,
            recurrent_weight,
            self.bias_with_forget(),
            projection_weight[0] if projection_weight else None,
            self.cell_clip,
            self.proj_clip,
            batch_sizes,
        )

    def reference(
        self,
        inputs: Tensor,
        memory: Tensor,
        output: Tensor,
        batch_sizes: Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same as `forward`, as the equation reads: what the fast path is tested against."""
        n_steps, n_rows = inputs.shape[1:3]
        c, h, outputs = memory, output, []
        for t, n in enumerate(batch_sizes or [n_rows] * n_steps):
            gates = inputs[:, t, :n] @ self.input_weight + h[:, :n] @ self.recurrent_weight
            i, j, f, o = (gates + self.bias_with_forget()[:, None]).chunk(4, dim=-1)
            c_t = torch.sigmoid(f) * c[:, :n] + torch.sigmoid(i) * torch.tanh(j)
            c_t = _clip(c_t, self.cell_clip)
            h_t = torch.sigmoid(o) * torch.tanh(c_t)
            if self.projection_weight is not None:
                h_t = _clip(h_t @ self.projection_weight, self.proj_clip)
            outputs.append(nn.functional.pad(h_t, (0, 0, 0, n_rows - n)))
            c = torch.cat([c_t, c[:, n:]], dim=1)
            h = torch.cat([h_t, h[:, n:]], dim=1)
        return torch.stack(outputs, dim=1), c, h

    def bias_with_forget(self) -> Tensor:
        """b, and the 1 on the forget gate that opens the memory at first. Shape `(2, 4D)`."""
        one = self.bias.new_zeros(4, self.dim)
        one[2] = 1.0
        return self.bias + one.flatten()


def _clip(x: Tensor, bound: float | None) -> Tensor:
    return x if bound is None else x.clamp(-bound, bound)
