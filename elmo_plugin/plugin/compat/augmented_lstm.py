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
    Return what AllenNLP's `AugmentedLstm.forward` returns: the packed outputs, and the output and
    the memory of each row's last step, each of shape `(1, B, lstm_dim)`.
    """
    cell, n = lstm.cell, inputs.batch_sizes.tolist()
    projected = cell.input_linearity(inputs.data).split(n)
    start = inputs.data.new_zeros(n[0], lstm.lstm_dim)
    output_0, memory_0 = (state.squeeze(0) for state in states) if states else (start, start)
    output, memory = output_0[:0], memory_0[:0]
    p = lstm.recurrent_dropout_probability
    # Drawn in evaluation too, as by AllenNLP, which leaves the same random state.
    mask = get_dropout_mask(p, start) if p > 0 else None
    outputs: list[Tensor] = []
    ended: list[State] = []
    # Packed rows are sorted by length, so the rows of each step are the first n.
    for step in range(len(n)) if lstm.go_forward else reversed(range(len(n))):
        old = len(output)
        if n[step] > old:
            output = torch.cat((output, output_0[old : n[step]]))
            memory = torch.cat((memory, memory_0[old : n[step]]))
        elif n[step] < old:
            ended.append((output[n[step] :], memory[n[step] :]))
            output, memory = output[: n[step]], memory[: n[step]]
        dropped = output * mask[: n[step]] if mask is not None and lstm.training else output
        output, memory = _step(cell, projected[step], cell.state_linearity(dropped), memory)
        outputs.append(output)
    ended.append((output, memory))
    packed = torch.cat(outputs if lstm.go_forward else outputs[::-1])
    last_outputs, last_memories = map(torch.cat, zip(*ended[::-1]))  # the longest row is the first
    return inputs._replace(data=packed), (last_outputs.unsqueeze(0), last_memories.unsqueeze(0))


def _step(cell: torch.nn.Module, x: Tensor, state: Tensor, memory: Tensor) -> State:
    """The output and the memory of one step, from the projections of its input and its state."""
    if cell.use_highway:
        n_gates = state.size(1)
        x, carried = x[:, :n_gates], x[:, n_gates:]
    gates = (x + state).split(cell.lstm_dim, dim=1)
    memory = gates[0].sigmoid() * gates[2].tanh() + gates[1].sigmoid() * memory
    output = gates[3].sigmoid() * memory.tanh()
    if cell.use_highway:
        share = gates[4].sigmoid()
        output = share * output + (1 - share) * carried
    return output, memory


AugmentedLstm.forward = forward  # type: ignore[assignment, method-assign]
