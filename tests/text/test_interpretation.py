"""These tests run AllenNLP's attacks on models, which compare fields and know AllenNLP's own
indexers by name."""

from typing import Any

import pytest
import torch
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import LabelField, TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.interpret.attackers import Attacker, Hotflip, InputReduction
from allennlp.models import Model
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding
from allennlp.predictors import Predictor

from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.conftest import BiLMFiles

WORDS = ["the", "dog", "threw", "a", "stick", "to", "him"]


class PairReader(DatasetReader):
    """Reads two texts, one of which is attacked, so that the other one is compared."""

    def __init__(self, indexer: TokenIndexer) -> None:
        super().__init__()
        self._token_indexers = {"tokens": SingleIdTokenIndexer(), "elmo": indexer}

    def text_to_instance(self, words: list[str]) -> Instance:  # type: ignore[override]
        tokens = [Token(word) for word in words]
        fields = {"tokens": TextField(tokens), "context": TextField(tokens[::-1])}
        return Instance(dict(fields))

    def apply_token_indexers(self, instance: Instance) -> None:
        for name in ("tokens", "context"):
            instance[name].token_indexers = self._token_indexers  # type: ignore[attr-defined]


class PairClassifier(Model):
    def __init__(self, vocab: Vocabulary, files: BiLMFiles) -> None:
        super().__init__(vocab)
        torch.manual_seed(0)
        elmo = ElmoEmbedder(*files, dropout=0.0)
        embedding = Embedding(4, vocab.get_vocab_size("tokens"))
        self.embedder = BasicTextFieldEmbedder({"tokens": embedding, "elmo": elmo})
        self.classify = torch.nn.Linear(self.embedder.get_output_dim(), 3)
        torch.nn.init.normal_(self.classify.weight)

    def forward(self, tokens: Any, context: Any, label: Any = None) -> dict[str, torch.Tensor]:  # type: ignore[override]
        vectors = self.embedder(context).mean(1) + self.embedder(tokens).mean(1)
        logits = self.classify(vectors)
        output = {"probs": logits.softmax(-1)}
        if label is not None:
            output["loss"] = torch.nn.functional.cross_entropy(logits, label)
        return output


class PairPredictor(Predictor):
    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(json_dict["words"])

    def predictions_to_labeled_instances(self, instance: Instance, outputs: Any) -> list[Instance]:
        labeled = instance.duplicate()
        labeled.add_field("label", LabelField(int(outputs["probs"].argmax()), skip_indexing=True))
        return [labeled]


@pytest.mark.parametrize("attacker", [InputReduction, Hotflip])
def test_attacks_as_with_allennlps_indexer(bilm_files: BiLMFiles, attacker: type[Attacker]) -> None:
    """The oracle is the same attack on the same model with AllenNLP's indexer."""
    vocab = Vocabulary(tokens_to_add={"tokens": WORDS})
    results = []
    for indexer in (ELMoTokenCharactersIndexer(), ElmoTokenIndexer()):
        predictor = PairPredictor(PairClassifier(vocab, bilm_files).eval(), PairReader(indexer))
        attack: Any = attacker(predictor)
        attack.initialize()
        results.append(attack.attack_from_json({"words": WORDS}, "tokens", "grad_input_1"))
    expected, found = results
    assert found["final"] == expected["final"]
    assert found["final"] != [found["original"]]
