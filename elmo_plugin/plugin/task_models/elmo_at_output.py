"""
ELMo at the encoder output for models that transform the embedded text before their encoder.
`elmo_output` cannot find the second mix there, so here the layers in between pass it through.
"""

from itertools import chain
from typing import Any

import torch
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules import Highway, Seq2SeqEncoder, TextFieldEmbedder
from allennlp.nn import InitializerApplicator
from allennlp_models.rc.models.bidaf import BidirectionalAttentionFlow
from allennlp_models.rc.models.naqanet import NumericallyAugmentedQaNet
from allennlp_models.rc.models.qanet import QaNet
from torch import Tensor, nn

from elmo_plugin.checks import fail
from elmo_plugin.plugin.seq2seq_encoders.elmo_output import ElmoOutputEncoder

Columns = list[list[int]]
"""First column, and the one after the last, of each mix."""


class ElmoAtOutput:
    """
    Mixin that adds ELMo to the output of a model's `phrase_layer`, as in Peters et al. (2018). A
    subclass lists it before AllenNLP's model among its bases, and may override `layers_before`.

    # Parameters

    phrase_layer : `Seq2SeqEncoder`
        Contextual encoder, without ELMo at its output.
    elmo_columns : `List[List[int]]`
        Columns of the embedded text to append to the output of the `phrase_layer`; no other layer
        reads them. For each mix, the first column and the one after the last.
    kwargs
        The other parameters of AllenNLP's model.

    # Raises

    `InputError`
        If the embedded text does not have these columns.
    """

    def __init__(
        self,
        vocab: Vocabulary,
        text_field_embedder: TextFieldEmbedder,
        phrase_layer: Seq2SeqEncoder,
        elmo_columns: Any,
        initializer: InitializerApplicator = InitializerApplicator(),  # noqa: B008
        **kwargs: Any,
    ) -> None:
        _check_columns(elmo_columns, text_field_embedder.get_output_dim())
        n_elmo = sum(end - start for start, end in elmo_columns)
        encoder = phrase_layer
        for start, end in elmo_columns:
            encoder = ElmoOutputEncoder(encoder, end - start, start=encoder.get_input_dim())
        super().__init__(  # type: ignore[call-arg]
            vocab=vocab, text_field_embedder=text_field_embedder, phrase_layer=encoder, **kwargs
        )
        self.layers_before(
            text_field_embedder.get_output_dim() - n_elmo,
            phrase_layer.get_input_dim(),
            kwargs["num_highway_layers"],
            elmo_columns,
        )
        initializer(self)  # type: ignore[arg-type]

    def layers_before(
        self, embedding_dim: int, encoding_dim: int, num_highway_layers: int, columns: Columns
    ) -> None:
        """
        Replace the layers between the embedder and the `phrase_layer`, by default a highway layer.
        `embedding_dim` and `encoding_dim` are the sizes of their input and output without ELMo.
        """
        model: Any = self
        model._highway_layer = PassElmo(Highway(embedding_dim, num_highway_layers), columns)


class PassElmo(nn.Module):
    """Applies a module to all columns except ELMo's, and appends ELMo's `columns` to its output."""

    def __init__(self, module: nn.Module, columns: Columns) -> None:
        super().__init__()
        self._module = module
        self._columns = columns

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the module. `inputs` and the result: shape `(B, T, dim)`."""
        elmo = [inputs[..., start:end] for start, end in self._columns]
        edges = [0, *chain(*sorted(self._columns)), inputs.size(-1)]
        others = [inputs[..., end:start] for end, start in zip(edges[::2], edges[1::2])]
        return torch.cat([self._module(torch.cat(others, dim=-1)), *elmo], dim=-1)


def _check_columns(columns: Any, n_columns: int) -> None:
    try:
        edges = [0, *chain(*sorted((start, end) for start, end in columns)), n_columns]
    except (TypeError, ValueError):
        edges = []
    if len(edges) < 4 or {*map(type, edges)} != {int} or edges != sorted(edges):
        expected = "pairs of a first column and the one after the last, among the "
        fail("elmo_columns", f"{expected}{n_columns} of the embedded text", columns)


@Model.register("bidaf_elmo")
class BidafElmo(ElmoAtOutput, BidirectionalAttentionFlow):
    """
    AllenNLP's `bidaf` with ELMo at the output of its contextual layer, as in Peters et al. (2018).
    The parameters are those of `ElmoAtOutput` and of `bidaf`.

    Registered as a `Model` with name "bidaf_elmo".
    """


class _ElmoAtEmbeddingEncoder(ElmoAtOutput):
    """`qanet` and `naqanet` have the same layers before their embedding encoder."""

    def layers_before(
        self, embedding_dim: int, encoding_dim: int, num_highway_layers: int, columns: Columns
    ) -> None:
        model: Any = self
        moved = [[encoding_dim, encoding_dim + sum(end - start for start, end in columns)]]
        projection = nn.Linear(encoding_dim, encoding_dim, bias=False)
        model._embedding_proj_layer = PassElmo(nn.Linear(embedding_dim, encoding_dim), columns)
        model._highway_layer = PassElmo(Highway(encoding_dim, num_highway_layers), moved)
        model._encoding_proj_layer = PassElmo(projection, moved)


@Model.register("qanet_elmo")
class QaNetElmo(_ElmoAtEmbeddingEncoder, QaNet):
    """
    AllenNLP's `qanet` with ELMo at the output of its embedding encoder. The parameters are those of
    `ElmoAtOutput` and of `qanet`.

    Registered as a `Model` with name "qanet_elmo".
    """


@Model.register("naqanet_elmo")
class NaqanetElmo(_ElmoAtEmbeddingEncoder, NumericallyAugmentedQaNet):
    """
    AllenNLP's `naqanet` with ELMo at the output of its embedding encoder. The parameters are those
    of `ElmoAtOutput` and of `naqanet`.

    Registered as a `Model` with name "naqanet_elmo".
    """
