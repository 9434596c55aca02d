from typing import Any

from allennlp.models import Model
from allennlp.modules import Highway
from allennlp_models.rc.models.naqanet import NumericallyAugmentedQaNet
from allennlp_models.rc.models.qanet import QaNet
from torch import nn

from elmo_plugin.plugin.task_models.elmo_at_output import Columns, ElmoAtOutput, PassElmo


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
