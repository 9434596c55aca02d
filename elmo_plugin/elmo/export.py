"""
The equations of the biLM for `torch.export`: a program of PyTorch's own operators, for any number
of sentences and tokens. It has no loop over time in Python, reads each token as a word of its own,
and keeps the order of the sentences, because ONNX has no stable sort.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLM
from elmo_plugin.ops.lstm import LSTMWeights, reference_step
from elmo_plugin.ops.private_torch import are_plain


class Program(nn.Module):
    """A function of characters, with the modules that it uses, as `torch.export` wants it."""

    def __init__(self, modules: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.modules_used = modules
        self._function = function

    def forward(self, characters: Tensor) -> Tensor:
        return self._function(characters)


def exported_layers(bilm: BiLM, initial_state: str, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
    """
    `BiLMLayers.layers` with boundaries. Padding must come after the tokens of a sentence, which
    programs do not check. Raises an `InputError` if the state is carried, if the precision is not
    fp32, if words are not read by a `CharCNN`, or if an LSTM layer has hooks, which the program
    would lack.
    """
    if initial_state == "carry":
        raise InputError(
            "torch.export: expected initial_state zero or warm, found carry, a state that no "
            "program keeps from one batch to the next"
        )
    if bilm.precision != "fp32":
        raise InputError(f"torch.export: expected precision fp32, found {bilm.precision}")
    if bilm.token_encoder.has_lexicon:
        raise InputError(
            "torch.export: expected a biLM that reads the characters of UTF-8, found one that "
            "looks words or code points up, for which programs have no operator"
        )
    if not are_plain([bilm, bilm.bilstm, *bilm.bilstm.layers]):
        raise InputError(
            "torch.export: expected LSTM layers without hooks and parametrizations, found some"
        )
    lengths = tokens.any(dim=-1).sum(dim=1)
    batch_size, n_steps = tokens.size(0), tokens.size(1) + 2
    time = torch.arange(n_steps, device=tokens.device)
    real = time < lengths[:, None] + 2  # (B, T + 2)
    vectors = bilm.token_encoder(bilm.with_boundaries(tokens, lengths).flatten(0, 1))
    index = torch.arange(vectors.size(0), device=tokens.device).view(batch_size, n_steps)
    # This index reverses each sentence within its length; applying it again restores the order.
    backward = torch.where(real, lengths[:, None] + 1 - time, time)
    both_inputs = torch.stack([index.T, index.gather(1, backward).T])  # (2, T + 2, B)
    x = nn.functional.embedding(both_inputs, vectors)
    rows = torch.arange(batch_size, device=tokens.device)[:, None]
    word_layer = x[0].transpose(0, 1) * real[:, :, None]
    layers = [torch.cat([word_layer, word_layer], dim=-1)]
    state = bilm.initial_state(initial_state, batch_size)
    cell, hidden = (s.contiguous() for s in state)
    for k, layer in enumerate(bilm.bilstm.layers):
        y = _lstm(x, cell[k], hidden[k], layer.weights(), real)
        x = y + x * real.T[:, :, None] if bilm.bilstm.use_skip_connections and k > 0 else y
        layers.append(torch.cat([x[0].transpose(0, 1), x[1][backward, rows]], dim=-1))
    return layers, real


def _lstm(
    inputs: Tensor, cell: Tensor, hidden: Tensor, weights: LSTMWeights, real: Tensor
) -> Tensor:
    """`reference_lstm` with the loop over time as an operator. `real`: shape `(B, T)`."""
    # Not at the top, because it imports the compiler.
    from torch._higher_order_ops.scan import scan

    def step(state: Any, at_t: Any) -> tuple[Any, Tensor]:
        (c, h), (gates, is_read) = state, at_t
        c_t, h_t = reference_step(gates, c, h, weights)
        return (torch.where(is_read, c_t, c), torch.where(is_read, h_t, h)), h_t * is_read

    gates = inputs @ weights.input[:, None] + weights.bias[:, None, None]  # (2, T, B, 4D)
    at_steps = gates.transpose(0, 1), real.T[:, None, :, None]
    _, outputs = scan(step, (cell, hidden), at_steps)
    return outputs.transpose(0, 1)
