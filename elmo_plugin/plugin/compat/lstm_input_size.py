"""
PyTorch's LSTM does not check the size of the vectors in a packed batch without an initial state,
which is what AllenNLP's encoders `lstm` pass to it. On a CPU, if all sentences of a batch are
equally long, oneDNN then computes with a wrong `input_size`, from other memory.

This module checks the size of each batch. Remove it when PyTorch checks such a batch.
"""

from typing import Any

from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor, nn

from elmo_plugin.checks import InputError

_sort_and_run_forward = _EncoderBase.sort_and_run_forward


def _check_and_run_forward(
    self: _EncoderBase, module: nn.Module, inputs: Tensor, *args: Any, **kwargs: Any
) -> Any:
    if isinstance(module, nn.LSTM) and inputs.size(-1) != module.input_size:
        raise InputError(
            f"encoder lstm: input_size: expected {inputs.size(-1)}, the size of the vectors that "
            f"it reads, found {module.input_size}"
        )
    return _sort_and_run_forward(self, module, inputs, *args, **kwargs)


_EncoderBase.sort_and_run_forward = _check_and_run_forward  # type: ignore[assignment, method-assign]
