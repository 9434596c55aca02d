"""
AllenNLP's encoder `lstm` packs its batches. On a CPU, PyTorch computes the gradient of a packed
LSTM step by step, and each step fills a tensor as large as all steps' inputs: the time grows with
the square of the length. oneDNN's LSTM, which PyTorch uses for batches that are not packed, has no
such cost.

This module registers another class under this name, with the same parameters and weights. If a
gradient is needed on a CPU, it computes the padded batch and leaves the padding out. Remove it when
PyTorch computes packed batches as fast (`python -m benchmarks.task_modules`).
"""

from typing import Any

import torch
from allennlp.modules.seq2seq_encoders import (
    LstmSeq2SeqEncoder,
    PytorchSeq2SeqWrapper,
    Seq2SeqEncoder,
)
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class PackedLSTM(nn.LSTM):
    """An LSTM whose gradient for a packed batch takes time proportional to the length."""

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """
        Return what `torch.nn.LSTM` returns. If `input` is packed and a gradient is needed on a CPU,
        the final states, which the encoder ignores, are `None`.
        """
        if not isinstance(input, PackedSequence) or hx is not None:
            return super().forward(input, hx)
        if not torch.is_grad_enabled() or input.data.device.type != "cpu":
            return super().forward(input, hx)
        x, lengths = pad_packed_sequence(input, batch_first=True)
        n_rows, n_steps, _ = x.shape
        last, steps = lengths.unsqueeze(1) - 1, torch.arange(n_steps)
        # The backward direction reads each row from its own last step, so padding comes last.
        reverse = torch.where(steps <= last, last - steps, steps)
        reverse = (reverse + n_steps * torch.arange(n_rows).unsqueeze(1)).flatten()
        zeros = x.new_zeros(1, n_rows, self.hidden_size)
        n_tensors = 4 if self.bias else 2
        directions = zip(*[iter(self._flat_weights)] * n_tensors)
        for layer in range(self.num_layers):
            outputs = []
            for is_backward in (False, True)[: 1 + self.bidirectional]:
                weights = next(directions)
                rows = _selected(x, reverse) if is_backward else x
                output, *_ = torch.lstm(
                    rows, (zeros, zeros), weights, self.bias, 1, 0.0, self.training, False, True
                )
                outputs.append(_selected(output, reverse) if is_backward else output)
            x = torch.cat(outputs, dim=-1)
            if layer < self.num_layers - 1:
                x = nn.functional.dropout(x, self.dropout, self.training)
        return pack_padded_sequence(x, lengths, batch_first=True), None


def _selected(x: Tensor, steps: Tensor) -> Tensor:
    """The steps of all rows of `x`, shape `(B, T, D)`, in another order, shape `(B T,)`."""
    return x.flatten(0, 1).index_select(0, steps).view_as(x)


@Seq2SeqEncoder.register("lstm", exist_ok=True)
class PackedLstmSeq2SeqEncoder(LstmSeq2SeqEncoder):
    """
    AllenNLP's encoder of this name, with a faster gradient on a CPU.

    Registered as a `Seq2SeqEncoder` with name "lstm", in place of AllenNLP's.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        stateful: bool = False,
    ) -> None:
        lstm = nn.LSTM if stateful else PackedLSTM  # a stateful encoder needs the final states
        # Bypasses AllenNLP's `__init__`, which would create another LSTM.
        PytorchSeq2SeqWrapper.__init__(
            self,
            lstm(
                input_size,
                hidden_size,
                num_layers,
                bias=bias,
                batch_first=True,
                dropout=dropout,
                bidirectional=bidirectional,
            ),
            stateful,
        )
