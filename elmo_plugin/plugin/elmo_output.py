"""
ELMo at the output of a task's encoder (Peters et al. 2018, section 3.3): the encoder `elmo_output`
for models that pass their embedded text to it directly, and models of allennlp-models that do not.
"""

from itertools import chain
from typing import Any

import torch
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules import Highway, Seq2SeqEncoder, TextFieldEmbedder, TokenEmbedder
from allennlp.nn import InitializerApplicator
from allennlp_models.classification.models.biattentive_classification_network import (
    BiattentiveClassificationNetwork,
)
from allennlp_models.rc.models.bidaf import BidirectionalAttentionFlow
from allennlp_models.rc.models.naqanet import NumericallyAugmentedQaNet
from allennlp_models.rc.models.qanet import QaNet
from torch import Tensor, nn

from elmo_plugin.checks import InputError, check_count, fail

Columns = list[list[int]]
"""First column, and the one after the last, of each mix."""


@Seq2SeqEncoder.register("elmo_output")
class ElmoOutputEncoder(Seq2SeqEncoder):
    """
    Adds ELMo to the output of a task's encoder: h_k becomes [h_k; ELMo_k], with its own mix.

    The embedder `elmo` with `num_output_representations: 2` concatenates both mixes. This encoder
    removes the second mix from its input, calls the wrapped encoder, and appends the second mix to
    the output. It works in any model that passes its embedded text directly to its encoder.

    The output of a bidirectional encoder is [forward; backward], and some models split it in the
    middle. It therefore becomes [forward; forward ELMo; backward; backward ELMo].

    Registered as a `Seq2SeqEncoder` with name "elmo_output".

    # Parameters

    encoder : `Seq2SeqEncoder`
        Encoder of the task.
    elmo_dim : `int`
        Size of a mix, 2P.
    start : `int`
        First column of the second mix. AllenNLP concatenates embedders in alphabetical order of
        their keys, so `start` is `elmo_dim` plus the sizes of the embedders whose keys precede
        "elmo".

    # Raises

    `InputError`
        If the input does not have these columns.
    """

    def __init__(self, encoder: Seq2SeqEncoder, elmo_dim: int, start: int) -> None:
        super().__init__(stateful=encoder.stateful)
        most = encoder.get_input_dim()
        self._encoder = encoder
        self._elmo_dim = check_count("elmo_output: elmo_dim", elmo_dim)
        self._start = check_count("elmo_output: start", start, least=0, most=most)
        self._n_directions = 2 if encoder.is_bidirectional() else 1
        if elmo_dim % self._n_directions:
            fail("elmo_output: elmo_dim", "an even number, for both directions", elmo_dim)

    def get_input_dim(self) -> int:
        return self._encoder.get_input_dim() + self._elmo_dim

    def get_output_dim(self) -> int:
        return self._encoder.get_output_dim() + self._elmo_dim

    def is_bidirectional(self) -> bool:
        return self._encoder.is_bidirectional()

    def reset_states(self, mask: torch.BoolTensor = None) -> None:  # type: ignore[assignment]
        self._encoder.reset_states(mask)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """
        Encode embedded text, shape `(B, T, input_dim)`, with a mask, shape `(B, T)`. Returns shape
        `(B, T, output_dim)`.
        """
        if inputs.size(-1) != self.get_input_dim():
            raise InputError(
                f"elmo_output: expected {self.get_input_dim()} columns, the input size "
                f"{self._encoder.get_input_dim()} of its encoder and the elmo_dim {self._elmo_dim} "
                f"of the second mix, found {inputs.size(-1)}"
            )
        end = self._start + self._elmo_dim
        elmo = inputs[..., self._start : end]
        rest = torch.cat([inputs[..., : self._start], inputs[..., end:]], dim=-1)
        if mask is not None:
            elmo = elmo * mask.unsqueeze(-1)
        encoded = self._encoder(rest, mask)
        n = self._n_directions
        directions = zip(encoded.chunk(n, dim=-1), elmo.chunk(n, dim=-1))
        return torch.cat([part for direction in directions for part in direction], dim=-1)


class ElmoAtOutput:
    """
    Mixin that adds ELMo to the output of a model's `phrase_layer`, for a model that transforms the
    embedded text before. `elmo_output` cannot find the second mix there, so here the layers in
    between pass it through. A subclass lists it before AllenNLP's model among its bases, and may
    override `layers_before`.

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


@Model.register("bcn_elmo")
class BcnElmo(BiattentiveClassificationNetwork):
    """
    AllenNLP's `bcn` with this package's embedder `elmo` instead of AllenNLP's ELMo.
    `use_input_elmo` and `use_integrator_output_elmo` select where the model adds the vectors. The
    token indexer must have the key "elmo".

    Registered as a `Model` with name "bcn_elmo".

    # Parameters

    elmo : `TokenEmbedder`
        Embedder of type "elmo", with one mix for each place.
    kwargs
        The other parameters of `bcn`.
    """

    def __init__(self, vocab: Vocabulary, elmo: TokenEmbedder, **kwargs: Any) -> None:
        super().__init__(vocab=vocab, elmo=_StockInterface(elmo), **kwargs)


class _StockInterface(nn.Module):
    """The part of the interface of AllenNLP's `Elmo` that `bcn` uses."""

    def __init__(self, embedder: Any) -> None:
        super().__init__()
        self._embedder = embedder
        self._scalar_mixes = range(embedder.num_output_representations)

    def get_output_dim(self) -> int:
        return self._embedder.get_output_dim() // len(self._scalar_mixes)

    def forward(self, elmo_tokens: Tensor) -> dict[str, list[Tensor]]:
        mixes = self._embedder(elmo_tokens).split(self.get_output_dim(), dim=-1)
        return {"elmo_representations": list(mixes)}
