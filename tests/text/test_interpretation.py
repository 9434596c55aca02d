"""AllenNLP's attacks on models, which know AllenNLP's own indexers by name."""

from typing import Any

import pytest
import torch
from allennlp.data import TokenIndexer, Vocabulary
from allennlp.data.dataset_readers import TextClassificationJsonReader
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.data.tokenizers import WhitespaceTokenizer
from allennlp.interpret.attackers import Attacker, Hotflip, InputReduction
from allennlp.models import BasicClassifier
from allennlp.modules.seq2vec_encoders import BagOfEmbeddingsEncoder
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding
from allennlp.predictors import TextClassifierPredictor

from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.conftest import BiLMFiles

SENTENCE = "the dog threw a stick to him"


def attacked(files: BiLMFiles, attacker: type[Attacker], indexer: TokenIndexer) -> Any:
    torch.manual_seed(0)
    vocab = Vocabulary(tokens_to_add={"tokens": SENTENCE.split()})
    elmo, embedding = ElmoEmbedder(*files, dropout=0.0), Embedding(4, len(SENTENCE.split()) + 2)
    embedder = BasicTextFieldEmbedder({"tokens": embedding, "elmo": elmo})
    encoder = BagOfEmbeddingsEncoder(embedder.get_output_dim())
    model = BasicClassifier(vocab, embedder, encoder, num_labels=3)
    torch.nn.init.normal_(model._classification_layer.weight)
    indexers = {"tokens": SingleIdTokenIndexer(), "elmo": indexer}
    reader = TextClassificationJsonReader(indexers, WhitespaceTokenizer())
    attack: Any = attacker(TextClassifierPredictor(model.eval(), reader))
    attack.initialize()
    return attack.attack_from_json({"sentence": SENTENCE}, "tokens", "grad_input_1")


@pytest.mark.parametrize("attacker", [InputReduction, Hotflip])
def test_attacks_as_with_allennlps_indexer(bilm_files: BiLMFiles, attacker: type[Attacker]) -> None:
    """The oracle is the same attack on the same model with AllenNLP's indexer."""
    expected = attacked(bilm_files, attacker, ELMoTokenCharactersIndexer())
    found = attacked(bilm_files, attacker, ElmoTokenIndexer())
    assert found["final"] == expected["final"]
    assert found["final"] != [found["original"]]
