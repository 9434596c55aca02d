from copy import deepcopy
from typing import List

from allennlp.common import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.predictors import Predictor
from overrides import overrides

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.plugin.models.bilm import BilmLanguageModel
from elmo_plugin.plugin.predictors.bilm import BilmPredictor


@Predictor.register("elmo")
class ElmoPredictor(BilmPredictor):
    """
    ELMo vectors from the archive of a `bilm`. The input is that of the predictor "bilm". The output
    has `tokens` and `layers`, which are L + 1 lists, first of the words and then of each LSTM
    layer, with a vector of 2P numbers for each token. `initial_state` and `precision` are those of
    the model.

    Registered as a `Predictor` with name "elmo".
    """

    def __init__(
        self, model: BilmLanguageModel, dataset_reader: DatasetReader, frozen: bool = True
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        # `Elmo` freezes its biLM, so it gets a copy.
        self._elmo = Elmo(
            deepcopy(model.bilm),
            initial_state=model.initial_state,
            precision=model.precision,
        ).eval()

    @overrides
    def predict_batch_instance(self, instances: List[Instance]) -> List[JsonDict]:
        sentences = [instance["metadata"].metadata for instance in instances]  # type: ignore[attr-defined]
        return [
            {"tokens": tokens, "layers": layers.tolist()}
            for tokens, layers in zip(sentences, self._elmo.embed(sentences, layer="all"))
        ]
