from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_plugin.modules.lstm_state import LSTMState
from elmo_plugin.modules.projected_lstm import ProjectedLSTM


class BiLSTM(nn.Module):
    """
    L layers of projected LSTMs, each in two independent directions. From the second layer on, a
    layer's input is added to its output; this residual is outside the recurrence.

    # Parameters

    n_layers : `int`
        L, the number of layers.
    input_dim : `int`
        The size of the first layer's input.
    dim : `int`
    projection_dim : `int`
    cell_clip : `float | None`
    proj_clip : `float | None`
        See `ProjectedLSTM` for these four.
    use_skip_connections : `bool`
        Whether there are residuals.
    dropout : `float`
        Dropout rate on every layer's input. The residual adds the input after dropout, as in
        bilm-tf.
    """

    def __init__(
        self,
        *,
        n_layers: int,
        input_dim: int,
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
                input_dim=projection_dim if k else input_dim,
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

    def zero_state(self, n_rows: int) -> LSTMState:
        """The initial state of zeros for `n_rows` rows."""
        weight = self.layers[0].recurrent_weight
        return LSTMState(
            weight.new_zeros(self.n_layers, 2, n_rows, self.dim),
            weight.new_zeros(self.n_layers, 2, n_rows, self.projection_dim),
        )

    def forward(
        self,
        inputs: Tensor,
        state: LSTMState,
        batch_sizes: Sequence[int] | None = None,
        dropout: bool = True,
    ) -> tuple[list[Tensor], LSTMState]:
        """
        # Parameters

        inputs : `Tensor`
            Input vectors of shape `(2, T, B, input_dim)`, each direction in its own reading order.
        state : `LSTMState`
            Initial LSTM state of shape `(L, 2, B, ..)`. No gradient flows into it.
        batch_sizes : `Sequence[int] | None`
            See `ProjectedLSTM.forward`.
        dropout : `bool`
            Whether there is dropout in training mode.

        # Returns

        `tuple[list[Tensor], LSTMState]`
            The output of each layer, shape `(2, T, B, P)`, and each row's state after its last
            step.
        """
        outputs, memories, lasts = [], [], []
        x = inputs
        for k, layer in enumerate(self.layers):
            x = self.dropout(x) if dropout else x
            y, memory, last = layer(x, state.memory[k], state.output[k], batch_sizes)
            x = y + x if self.use_skip_connections and k > 0 else y
            outputs.append(x)
            memories.append(memory)
            lasts.append(last)
        return outputs, LSTMState(torch.stack(memories), torch.stack(lasts)).detach()
