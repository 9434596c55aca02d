"""
Frozen transformers in the models of a grid, in AllenNLP's own embedders. Like the layers of a
frozen biLM, which `cache_dir` stores, their layers are computed once for each sentence.
"""

from typing import Any

import torch
from allennlp.common import cached_transformers
from allennlp.modules.token_embedders import PretrainedTransformerEmbedder
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

_get_tokenizer = cached_transformers.get_tokenizer


def _get_tokenizer_without(model_name: str, **kwargs: Any) -> Any:
    """AllenNLP's function, without an argument that current tokenizers refuse and none needs."""
    kwargs.pop("add_special_tokens", None)
    return _get_tokenizer(model_name, **kwargs)


cached_transformers.get_tokenizer = _get_tokenizer_without


class RememberedTransformer:
    """
    The `forward` of a frozen transformer without dropout, which computes what it has not seen yet.

    # Parameters

    transformer : `nn.Module`
        A transformer whose hidden states are those of all layers.
    """

    def __init__(self, transformer: nn.Module) -> None:
        self._forward = transformer.forward
        self._known: dict[bytes, Tensor] = {}

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutput:
        """
        # Parameters

        input_ids : `Tensor`
            Word pieces, shape `(B, T)`, padded at the end.
        attention_mask : `Tensor`
            1 for a word piece and 0 for padding, shape `(B, T)`.

        # Returns

        `BaseModelOutput`
            Only the hidden states, shape `(B, T, D)` in each layer, with zeros for padding. The
            layer of the embeddings, which AllenNLP does not read, is `None`.
        """
        lengths = attention_mask.sum(1).int().tolist()
        keys = [row[:n].numpy().tobytes() for row, n in zip(input_ids, lengths)]
        new = {key: k for k, key in enumerate(keys) if key not in self._known}
        if new:
            rows = list(new.values())
            width = max(lengths[k] for k in rows)
            with torch.no_grad():
                layers = self._forward(
                    input_ids=input_ids[rows, :width], attention_mask=attention_mask[rows, :width]
                ).hidden_states[1:]
            for n, (key, k) in enumerate(new.items()):
                self._known[key] = torch.stack([layer[n, : lengths[k]] for layer in layers])
        n_layers, _, dim = self._known[keys[0]].shape
        padded = torch.zeros(n_layers, *input_ids.shape, dim)
        for k, (key, n) in enumerate(zip(keys, lengths)):
            padded[:, k, :n] = self._known[key]
        return BaseModelOutput(hidden_states=(None, *padded))  # type: ignore[arg-type]


def remember_transformers(model: nn.Module) -> None:
    """Let each transformer of an AllenNLP model that is frozen and has no dropout compute once."""
    for module in model.modules():
        if not isinstance(module, PretrainedTransformerEmbedder) or module.train_parameters:
            continue
        transformer = module.transformer_model
        if all(part.p == 0 for part in transformer.modules() if isinstance(part, nn.Dropout)):
            transformer.forward = RememberedTransformer(transformer)  # type: ignore[assignment]
