"""
AllenNLP's encoder `lstm` packs its batches. On a CPU, PyTorch computes the gradient of a packed
LSTM step by step, and each step fills a tensor as large as all steps' inputs: the time grows with
the square of the length. Unpacking copies its gradient once for each length in the batch. oneDNN's
LSTM, which PyTorch uses for batches that are not packed, has no such cost.

This module registers another class under this name, with the same parameters and weights. In
training on a CPU, it computes the padded batch and leaves the padding out. The trainer's confidence
checks set no hooks on its LSTM, because with hooks AllenNLP's code computes the batch. Remove it
when PyTorch computes packed batches as fast (`python -m benchmarks.task_modules`).
"""

from typing import Any, cast

import torch
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder
from torch import Tensor, nn

from allennlp_today.callbacks import WITHOUT_HOOKS


class PaddedLstmSeq2SeqEncoder(LstmSeq2SeqEncoder):
    """
    AllenNLP's encoder of this name, with a gradient on a CPU that takes time proportional to the
    length.

    Registered as a `Seq2SeqEncoder` with name "lstm", instead of AllenNLP's.
    """

    def forward(self, inputs: Tensor, mask: Tensor | None, hidden_state: Any = None) -> Tensor:
        """
        Return what AllenNLP's `forward` returns, shape `(B, T, D)`, zeros at padding. `inputs`:
        shape `(B, T, input_size)`; `mask`: shape `(B, T)`, true at the first steps of each row.
        """
        if mask is None or hidden_state is not None or not self._reads_padded(inputs, mask):
            return super().forward(inputs, mask, hidden_state)  # type: ignore[arg-type]
        lstm = cast(nn.LSTM, self._module)
        lstm._update_flat_weights()  # weights may have been replaced, as `nn.LSTM.forward` knows
        padding = ~mask.unsqueeze(-1)
        x = inputs.masked_fill(padding, 0.0)  # anything may be there, and its gradient is zero
        n_rows, n_steps = mask.shape
        last, steps = mask.sum(dim=1, keepdim=True) - 1, torch.arange(n_steps)
        # The backward direction reads each row from its own last step, so padding comes last.
        reverse = torch.where(steps <= last, last - steps, steps)
        reverse = (reverse + n_steps * torch.arange(n_rows).unsqueeze(1)).flatten()
        zeros = x.new_zeros(1, n_rows, lstm.hidden_size)
        n_tensors = 4 if lstm.bias else 2
        directions = zip(*[iter(lstm._flat_weights)] * n_tensors)
        for layer in range(lstm.num_layers):
            outputs = []
            for is_backward in (False, True)[: 1 + lstm.bidirectional]:
                weights = next(directions)
                rows = _selected(x, reverse) if is_backward else x
                output, *_ = torch.lstm(
                    rows, (zeros, zeros), weights, lstm.bias, 1, 0.0, True, False, True
                )
                outputs.append(_selected(output, reverse) if is_backward else output)
            x = torch.cat(outputs, dim=-1)
            if layer < lstm.num_layers - 1:
                x = nn.functional.dropout(x, lstm.dropout)
        return x.masked_fill(padding, 0.0)

    def _reads_padded(self, inputs: Tensor, mask: Tensor) -> bool:
        """Whether the padded batch gives the same and is faster; AllenNLP's code does the rest."""
        lstm = self._module
        # The choice must not depend on the gradient mode, which a gradient checkpoint changes.
        if not self.training or self.stateful or inputs.device.type != "cpu":
            return False
        # Hooks and parametrizations need the call of the module, which `torch.lstm` is not.
        if type(lstm) is not nn.LSTM or not lstm.training or not _is_plain(lstm):
            return False
        # oneDNN does not notice inputs of another size.
        if torch.is_autocast_enabled("cpu") or inputs.shape != (*mask.shape, lstm.input_size):
            return False
        steps, lengths = torch.arange(mask.size(1)), mask.sum(dim=1, keepdim=True)
        if mask.dtype != torch.bool or not torch.equal(mask, steps < lengths):
            return False
        # Packing skips the padding, and pays for the length, the more the smaller the layers. The
        # numbers were fitted to times of 20 to 200 steps with 100 and 256 cells, by
        # `python -m benchmarks.task_modules` of the commit 78c3193.
        least = 0.75 / (1 + 1.5 * mask.size(1) / lstm.hidden_size)
        return int(lengths.sum()) > least * mask.numel()


def _is_plain(lstm: nn.LSTM) -> bool:
    """Whether a call of `lstm` does only what `nn.LSTM` defines."""
    return not (
        nn.modules.module._has_any_global_hook()
        or lstm._forward_hooks
        or lstm._forward_pre_hooks
        or lstm._backward_hooks
        or lstm._backward_pre_hooks
        or "parametrizations" in lstm._modules
        or "forward" in lstm.__dict__
    )


def _selected(x: Tensor, steps: Tensor) -> Tensor:
    """The steps of all rows of `x`, shape `(B, T, D)`, in another order, shape `(B T,)`."""
    return x.flatten(0, 1).index_select(0, steps).view_as(x)


def apply() -> None:
    Seq2SeqEncoder.register("lstm", exist_ok=True)(PaddedLstmSeq2SeqEncoder)
    WITHOUT_HOOKS.append(PaddedLstmSeq2SeqEncoder)
