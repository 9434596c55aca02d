"""
AllenNLP's model `simple_tagger` predicts a tag also for the padding of a batch, so that each
sentence has as many tags as the longest one. Importing this module cuts `tags`, `logits` and
`class_probabilities` to the sentence's tokens, as `crf_tagger` does with its tags. Remove it when
AllenNLP uses the mask.
"""

from typing import Any

from allennlp.models import SimpleTagger
from allennlp.nn.util import get_text_field_mask
from torch import Tensor

_forward = SimpleTagger.forward
_make_output_human_readable = SimpleTagger.make_output_human_readable


def forward(self: SimpleTagger, tokens: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    output: dict[str, Any] = _forward(self, tokens, *args, **kwargs)
    return {**output, "mask": get_text_field_mask(tokens)}


def make_output_human_readable(self: SimpleTagger, output_dict: dict[str, Any]) -> dict[str, Any]:
    mask: Tensor | None = output_dict.pop("mask", None)
    readable: dict[str, Any] = _make_output_human_readable(self, output_dict)
    if mask is not None:
        lengths = mask.sum(dim=1).tolist()
        for key in ("logits", "class_probabilities"):
            readable[key] = readable[key].detach().cpu().numpy()
        for key in ("tags", "logits", "class_probabilities"):
            readable[key] = [row[:n] for row, n in zip(readable[key], lengths)]
    return readable


SimpleTagger.forward = forward  # type: ignore[method-assign]
SimpleTagger.make_output_human_readable = make_output_human_readable  # type: ignore[method-assign]
