from typing import Any

from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules import TokenEmbedder
from allennlp_models.classification.models.biattentive_classification_network import (
    BiattentiveClassificationNetwork,
)
from torch import Tensor, nn


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
