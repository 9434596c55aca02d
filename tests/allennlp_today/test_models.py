"""A tagger gives each token a tag and the padding none, an LSTM refuses vectors of another size,
and `diff` compares integers."""

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder, Seq2VecEncoder
from allennlp.predictors import Predictor

import allennlp_today  # noqa: F401
from tests.conftest import allennlp

SENTENCES = [["He", "threw", "it", "."], ["Hi", "."], ["Run"]]


def tagger(indexer: dict, embedder: dict) -> Predictor:
    """The predictor of a tagger with random weights, which reads 16 numbers for each token."""
    config = {"type": "sequence_tagging", "token_indexers": {"tokens": indexer}}
    reader = DatasetReader.from_params(Params(config))
    instance = reader.text_to_instance([Token(x) for x in "abc"], ["X", "Y", "Z"])  # type: ignore[call-arg]
    reader.apply_token_indexers(instance)
    model = {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {"tokens": embedder}},
        "encoder": {"type": "lstm", "input_size": 16, "hidden_size": 4},
    }
    vocab = Vocabulary.from_instances([instance])
    return Predictor.by_name("sentence_tagger")(
        Model.from_params(Params(model), vocab=vocab).eval(), reader, language="blank:en"
    )


def instances(predictor: Predictor, sentences: list[list[str]]) -> list[Instance]:
    make = predictor._dataset_reader.text_to_instance
    return [make([Token(word) for word in sentence]) for sentence in sentences]


def check_tags(predictor: Predictor) -> None:
    """Compare the outputs of a batch with those of each sentence by itself, without padding."""
    together = predictor.predict_batch_instance(instances(predictor, SENTENCES))
    for sentence, found in zip(SENTENCES, together):
        [instance] = instances(predictor, [sentence])
        alone = predictor.predict_instance(instance)
        assert found["words"] == sentence
        assert found["tags"] == alone["tags"]
        assert found.keys() == alone.keys() == {"logits", "class_probabilities", "tags", "words"}
        for key in ("logits", "class_probabilities"):
            torch.testing.assert_close(*(torch.tensor(x[key]) for x in (found, alone)))


def test_a_batch_has_the_tags_of_each_sentence_alone() -> None:
    """The expected outputs are those of each sentence by itself, which has no padding."""
    check_tags(tagger({"type": "single_id"}, {"type": "embedding", "embedding_dim": 16}))


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("size", [6, 700])
@pytest.mark.parametrize("kind", [Seq2SeqEncoder, Seq2VecEncoder])
def test_inputs_of_another_size_are_an_error(kind, size, is_training):
    """If all rows are equally long, AllenNLP's own encoders give numbers, from other memory."""
    encoder = kind.from_params(Params({"type": "lstm", "input_size": 7, "hidden_size": 5}))
    encoder.train(is_training)
    mask = torch.ones(5, 9, dtype=torch.bool)
    with pytest.raises(ConfigurationError, match=f"lstm: input_size: expected {size}, .* found 7"):
        encoder(torch.randn(5, 9, size), mask)
    assert len(encoder(torch.randn(5, 9, 7), mask)) == 5
    with pytest.raises(ConfigurationError, match="expected at least one token, found empty texts"):
        encoder.eval()(torch.randn(5, 0, 7), mask[:, :0])


def test_a_diff_of_integers(tmp_path, capsys):
    """The expected distance is the root of 12.5, the mean of the squares of 3 and 4."""
    for name, values in (("a", [0, 0]), ("b", [3, 4])):
        torch.save({"count": torch.tensor(values)}, tmp_path / name)
    allennlp("diff", tmp_path / "a", tmp_path / "b")
    assert "!count, shape = (2,), distance = 3.5355" in capsys.readouterr().out
