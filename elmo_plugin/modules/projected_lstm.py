from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_plugin.ops.lstm import lstm_scan, pack_scan_weights
from elmo_plugin.ops.packed_weights import PackedWeightCache


class ProjectedLSTM(nn.Module):
    """
    A clipped LSTM layer with a projection (Sak et al. 2014) in two independent directions. Index 0
    of every parameter's first axis is the forward direction, index 1 the backward one; each reads
    its own text.

        i, j, f, o = x_t W_x + h_{t-1} W_h + b
        c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j), cell_clip)
        h_t = clip((sigmoid(o) * tanh(c_t)) W_P, proj_clip)

    as in TensorFlow's `LSTMCell` without peepholes, which computed the original ELMo. The 1 that is
    added to the forget gate is not part of `b`. Without a projection h_t is not clipped.

    # Parameters

    input_dim : `int`
        The size of x_t.
    dim : `int`
        D, the size of the memory cell c_t.
    projection_dim : `int`
        P, the size of the output h_t. If P = D there is no projection.
    cell_clip : `float | None`
        Bound on each number of the memory cell; `None` for no bound.
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
        self.precision: torch.dtype | None = None  # of products; by default the weights'
        self.packed_weights = PackedWeightCache(pack_scan_weights)
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
            Input vectors of shape `(2, T, B, input_dim)`, each direction in its own reading order.
        memory : `Tensor`
            c_0 of shape `(2, B, D)`. No gradient flows into it.
        output : `Tensor`
            h_0 of shape `(2, B, P)`. No gradient flows into it.
        batch_sizes : `Sequence[int] | None`
            Number of rows that are read at each of the T steps, never rising, as in
            `torch.nn.utils.rnn.PackedSequence`: the first `batch_sizes[t]` rows, which are sorted
            by falling length. By default all rows at every step.

        # Returns

        `tuple[Tensor, Tensor, Tensor]`
            h_1 .. h_T of shape `(2, T, B, P)`, zeros at steps that a row does not read; and each
            row's c and h after its last step, of shapes `(2, B, D)` and `(2, B, P)`.
        """
        weights = [self.input_weight, self.recurrent_weight]
        if self.projection_weight is not None:
            weights.append(self.projection_weight)
        input_weight, recurrent_weight, *projection_weight = self.packed_weights(
            weights, self.precision
        ) or [weight.to(self.precision or weight.dtype) for weight in weights]
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

    def bias_with_forget(self) -> Tensor:
        """b plus the 1 that opens the forget gate at first. Shape `(2, 4D)`."""
        one = self.bias.new_zeros(4, self.dim)
        one[2] = 1.0
        return self.bias + one.flatten()
