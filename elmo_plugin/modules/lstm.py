from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, fail
from elmo_plugin.ops.linear import cast, product_dtype
from elmo_plugin.ops.lstm import LSTMWeights, lstm_scan


class ProjectedLSTM(nn.Module):
    """
    A clipped LSTM layer with a projection (Sak et al. 2014) in two independent directions. Index 0
    of every parameter's first axis is the forward direction, index 1 the backward one; each reads
    its own text.

        i, j, f, o = x_t W_x + h_{t-1} W_h + b
        c_t = clip(sigmoid(f + 1) * c_{t-1} + sigmoid(i) * tanh(j), cell_clip)
        h_t = clip((sigmoid(o) * tanh(c_t)) W_P, proj_clip)

    as in TensorFlow's `LSTMCell` without peepholes, which the original ELMo used. The 1 that is
    added to the forget gate is not part of `b`. Without a projection h_t is not clipped.

    # Parameters

    input_dim : `int`
        Size of x_t.
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
        """Set TensorFlow's default, Glorot uniform over the joint `(input + P, 4D)` kernel."""
        fan_in, fan_out = self.input_weight.size(1) + self.projection_dim, 4 * self.dim
        bound = (6 / (fan_in + fan_out)) ** 0.5
        nn.init.uniform_(self.input_weight, -bound, bound)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            bound = (6 / (self.dim + self.projection_dim)) ** 0.5
            nn.init.uniform_(self.projection_weight, -bound, bound)

    def forward(
        self, inputs: Tensor, cell: Tensor, hidden: Tensor, batch_sizes: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Read a batch of rows in both directions. `inputs`: shape `(2, T, B, input_dim)`, each
        direction in its own reading order. `cell`: c_0 of shape `(2, B, D)`; `hidden`: h_0 of shape
        `(2, B, P)`. No gradient flows into these two.

        `batch_sizes`: number of rows to read at each of the T steps, in descending order, as in
        `torch.nn.utils.rnn.PackedSequence`: step t reads the first `batch_sizes[t]` rows, and rows
        are sorted by descending length. By default every step reads all rows.

        Returns h_1 .. h_T of shape `(2, T, B, P)`, zeros at steps that a row does not read; and
        each row's c and h after its last step, of shapes `(2, B, D)` and `(2, B, P)`. Raises an
        `InputError` if the last sizes of `inputs`, `cell` and `hidden` are not those of the layer,
        or the batch sizes are not T descending numbers.
        """
        expected = self.input_weight.size(1), self.dim, self.projection_dim
        sizes = inputs.size(-1), cell.size(-1), hidden.size(-1)
        if sizes != expected:
            raise InputError(
                f"expected inputs, cell and hidden of {expected} numbers each, found {sizes}"
            )
        if batch_sizes is not None:
            n_steps, n_rows = inputs.shape[1:3]
            is_descending = all(a >= b for a, b in pairwise([n_rows, *batch_sizes, 0]))
            if len(batch_sizes) != n_steps or not is_descending:
                expected_sizes = f"{n_steps} numbers in descending order from {n_rows} to 0"
                fail("batch_sizes", expected_sizes, batch_sizes)
        return lstm_scan(inputs, cell, hidden, self.weights(), batch_sizes)

    def weights(self) -> LSTMWeights:
        """The weights in the precision of the products, with the forget gate's 1 in the bias."""
        one = self.bias.new_zeros(4, self.dim)
        one[2].fill_(1.0)  # an assignment would copy the number from the CPU
        weights = LSTMWeights(
            self.input_weight,
            self.recurrent_weight,
            self.bias + one.flatten(),
            self.projection_weight,
            self.cell_clip,
            self.proj_clip,
        )
        dtype = product_dtype(self.input_weight, self.precision)
        w_x, w_h, *w_p = cast(weights.matrices(), dtype)
        return weights._replace(input=w_x, recurrent=w_h, projection=w_p[0] if w_p else None)


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
        if rows.batch_size == self.batch_size:
            return rows
        return LSTMState(
            *(
                torch.cat([new, old[:, :, rows.batch_size :].to(new)], 2)
                for old, new in zip(self, rows)
            )
        )

    def to(self, other: Tensor) -> LSTMState:
        """This state in the type and on the device of `other`."""
        return LSTMState(*(x.to(other) for x in self))

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


class BiLSTM(nn.Module):
    """
    L layers of projected LSTMs, each in two independent directions. From the second layer on, a
    layer's input is added to its output; this residual is outside the recurrence.

    # Parameters

    n_layers : `int`
        L, the number of layers.
    dim : `int`
    projection_dim : `int`
        Also the size of every layer's input.
    cell_clip : `float | None`
    proj_clip : `float | None`
        See `ProjectedLSTM` for these four.
    use_skip_connections : `bool`
        Whether to add the residuals.
    dropout : `float`, optional (default = `0.0`)
        Dropout rate of every layer's input. The residual adds the input after dropout, as in
        bilm-tf.
    """

    def __init__(
        self,
        *,
        n_layers: int,
        dim: int,
        projection_dim: int,
        cell_clip: float | None,
        proj_clip: float | None,
        use_skip_connections: bool,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.projection_dim = projection_dim
        self.use_skip_connections = use_skip_connections
        self.dropout = nn.Dropout(dropout)
        self.layers: Sequence[ProjectedLSTM] = nn.ModuleList(  # type: ignore[assignment]
            ProjectedLSTM(
                input_dim=projection_dim,
                dim=dim,
                projection_dim=projection_dim,
                cell_clip=cell_clip,
                proj_clip=proj_clip,
            )
            for k in range(n_layers)
        )

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    def zero_state(self, batch_size: int) -> LSTMState:
        """The initial state of zeros for `batch_size` rows."""
        weight = self.layers[0].recurrent_weight
        return LSTMState(
            weight.new_zeros(self.n_layers, 2, batch_size, self.dim),
            weight.new_zeros(self.n_layers, 2, batch_size, self.projection_dim),
        )

    def forward(
        self, inputs: Tensor, state: LSTMState, batch_sizes: Sequence[int] | None = None
    ) -> tuple[list[Tensor], LSTMState]:
        """
        Read a batch of rows with all layers. `inputs`: shape `(2, T, B, P)`, each direction in its
        own reading order. `state`: initial LSTM state of shape `(L, 2, B, ...)`; no gradient
        flows into it. `batch_sizes`: see `ProjectedLSTM.forward`. Returns the output of each layer,
        shape `(2, T, B, P)`, and each row's state after its last step.
        """
        outputs, cells, hiddens = [], [], []
        x = inputs
        for k, layer in enumerate(self.layers):
            x = self.dropout(x)
            y, cell, hidden = layer(x, state.cell[k], state.hidden[k], batch_sizes)
            x = y + x if self.use_skip_connections and k > 0 else y
            outputs.append(x)
            cells.append(cell)
            hiddens.append(hidden)
        return outputs, LSTMState(*(torch.stack(x).detach() for x in (cells, hiddens)))
