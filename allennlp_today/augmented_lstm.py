"""
AllenNLP's encoders `augmented_lstm`, `alternating_lstm` and `stacked_bidirectional_lstm` write each
step into one tensor of all steps, which the gradient copies for each step: the time of a training
step grows with the square of the length. They also multiply the inputs step by step.

This module replaces the loop over the steps. It multiplies the inputs of all steps at once, and
splits and joins the packed batch, which takes one copy in both passes. Remove it when AllenNLP's
loop is as fast (`python -m benchmarks.task_modules`).
"""

import torch
from allennlp.modules.augmented_lstm import AugmentedLstm
from allennlp.nn.util import get_dropout_mask
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

State = tuple[Tensor, Tensor]


def forward(
    lstm: AugmentedLstm, inputs: PackedSequence, states: State | None = None
) -> tuple[PackedSequence, State]:
    """
    Return what AllenNLP's `AugmentedLstm.forward` returns: the packed outputs, and the hidden state
    and the cell of each row's last step, each of shape `(1, B, lstm_dim)`.
    """
    n = inputs.batch_sizes.tolist()
    projected = lstm.cell.input_linearity(inputs.data).split(n)
    start = inputs.data.new_zeros(n[0], lstm.lstm_dim)
    hidden_0, cell_0 = (state.squeeze(0) for state in states) if states else (start, start)
    hidden, cell = hidden_0[:0], cell_0[:0]
    p = lstm.recurrent_dropout_probability
    # Drawn in evaluation too, as by AllenNLP, which leaves the same random state.
    mask = get_dropout_mask(p, start) if p > 0 else None
    outputs: list[Tensor] = []
    ended: list[State] = []
    # Packed rows are sorted by length, so the rows of each step are the first n.
    for step in range(len(n)) if lstm.go_forward else reversed(range(len(n))):
        old = len(hidden)
        if n[step] > old:
            hidden = torch.cat((hidden, hidden_0[old : n[step]]))
            cell = torch.cat((cell, cell_0[old : n[step]]))
        elif n[step] < old:
            ended.append((hidden[n[step] :], cell[n[step] :]))
            hidden, cell = hidden[: n[step]], cell[: n[step]]
        dropped = hidden * mask[: n[step]] if mask is not None and lstm.training else hidden
        state = lstm.cell.state_linearity(dropped)
        hidden, cell = _step(lstm.cell, projected[step], state, cell)
        outputs.append(hidden)
    ended.append((hidden, cell))
    packed = torch.cat(outputs if lstm.go_forward else outputs[::-1])
    last_hidden, last_cell = map(torch.cat, zip(*ended[::-1]))  # the longest row is the first
    return inputs._replace(data=packed), (last_hidden.unsqueeze(0), last_cell.unsqueeze(0))


def _step(module: torch.nn.Module, x: Tensor, state: Tensor, cell: Tensor) -> State:
    """
    The hidden state and the cell of one step, from the projections of its input and its state.
    """
    if module.use_highway:
        n_gates = state.size(1)
        x, carried = x[:, :n_gates], x[:, n_gates:]
    gates = (x + state).split(module.lstm_dim, dim=1)
    cell = gates[0].sigmoid() * gates[2].tanh() + gates[1].sigmoid() * cell
    hidden = gates[3].sigmoid() * cell.tanh()
    if module.use_highway:
        share = gates[4].sigmoid()
        hidden = share * hidden + (1 - share) * carried
    return hidden, cell


def apply() -> None:
    AugmentedLstm.forward = forward  # type: ignore[assignment, method-assign]
