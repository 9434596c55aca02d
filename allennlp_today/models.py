"""
Three patches of models:

- PyTorch's LSTM does not check the size of the vectors in a packed batch without an initial state,
  which is what AllenNLP's encoders `lstm` pass to it. On a CPU, if all sentences of a batch are
  equally long, oneDNN then computes with a wrong `input_size`, from other memory. The size of each
  batch is now checked. Remove this when PyTorch checks such a batch. The same function of AllenNLP
  raised `IndexError: index 0 is out of bounds` for a batch of empty texts.
- The model `simple_tagger` predicts a tag also for the padding of a batch, so that each sentence
  has as many tags as the longest one. Its `tags`, `logits` and `class_probabilities` are now cut to
  the sentence's tokens, as `crf_tagger` does with its tags. Remove this when AllenNLP uses the
  mask.
- The command `diff` computes the mean squared error of each tensor, which PyTorch has for floating
  point only, so that it ended at a count, such as those of batch normalization and of a biLM. It
  now reads integers as float64. Remove this when AllenNLP or PyTorch converts them.
"""

from typing import Any

from allennlp.commands import diff
from allennlp.common.checks import ConfigurationError
from allennlp.models import SimpleTagger
from allennlp.modules.encoder_base import _EncoderBase
from allennlp.nn.util import get_text_field_mask
from torch import Tensor, nn

_sort_and_run_forward = _EncoderBase.sort_and_run_forward
_forward = SimpleTagger.forward
_make_output_human_readable = SimpleTagger.make_output_human_readable
_read_state_dict = diff.read_state_dict


def _check_and_run_forward(
    self: _EncoderBase, module: nn.Module, inputs: Tensor, *args: Any, **kwargs: Any
) -> Any:
    if isinstance(module, nn.LSTM) and inputs.size(-1) != module.input_size:
        raise ConfigurationError(
            f"encoder lstm: input_size: expected {inputs.size(-1)}, the size of the vectors that "
            f"it reads, found {module.input_size}"
        )
    if inputs.size(1) == 0:
        raise ConfigurationError("expected at least one token, found empty texts only")
    return _sort_and_run_forward(self, module, inputs, *args, **kwargs)


def _forward_with_mask(
    self: SimpleTagger, tokens: Any, *args: Any, **kwargs: Any
) -> dict[str, Any]:
    output: dict[str, Any] = _forward(self, tokens, *args, **kwargs)
    return {**output, "mask": get_text_field_mask(tokens)}


def _make_tokens_readable(self: SimpleTagger, output_dict: dict[str, Any]) -> dict[str, Any]:
    mask: Tensor | None = output_dict.pop("mask", None)
    readable: dict[str, Any] = _make_output_human_readable(self, output_dict)
    if mask is not None:
        lengths = mask.sum(dim=1).tolist()
        for key in ("logits", "class_probabilities"):
            readable[key] = readable[key].detach().cpu().numpy()
        for key in ("tags", "logits", "class_probabilities"):
            readable[key] = [row[:n] for row, n in zip(readable[key], lengths)]
    return readable


def _read_floats(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
    tensors = _read_state_dict(*args, **kwargs)
    return {name: x if x.is_floating_point() else x.double() for name, x in tensors.items()}


_EncoderBase.sort_and_run_forward = _check_and_run_forward  # type: ignore[assignment, method-assign]
SimpleTagger.forward = _forward_with_mask  # type: ignore[method-assign]
SimpleTagger.make_output_human_readable = _make_tokens_readable  # type: ignore[method-assign]
diff.read_state_dict = _read_floats
