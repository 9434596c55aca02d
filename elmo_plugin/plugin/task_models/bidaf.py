from allennlp.models import Model
from allennlp.modules import Highway
from allennlp_models.rc.models.bidaf import BidirectionalAttentionFlow

from elmo_plugin.plugin.task_models.elmo_at_output import Columns, ElmoAtOutput, PassElmo


@Model.register("bidaf_elmo")
class BidafElmo(ElmoAtOutput, BidirectionalAttentionFlow):
    """
    AllenNLP's `bidaf` with ELMo at the output of its contextual layer, as in Peters et al. (2018).
    The parameters are those of `ElmoAtOutput` and of `bidaf`.

    Registered as a `Model` with name "bidaf_elmo".
    """

    def layers_before(
        self, embedding_dim: int, encoding_dim: int, num_highway_layers: int, columns: Columns
    ) -> None:
        highway = Highway(embedding_dim, num_highway_layers)
        self._highway_layer = PassElmo(highway, columns)  # type: ignore[assignment]
