"""A tagger with and without ELMo gives each token a tag, and nothing to what is not a token."""

import json
from pathlib import Path

import pytest
from allennlp.commands import predict
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError

SENTENCES = [["He", "threw", "it", "."], ["Hi", "."], ["Run"]]


@pytest.fixture(params=["elmo", "tokens"])
def predictor(request: pytest.FixtureRequest, bilm_files) -> Predictor:
    options, weights = bilm_files
    embedders = {
        "elmo": {"type": "elmo", "options_file": options, "weight_file": weights},
        "tokens": {"type": "embedding", "embedding_dim": 16},
    }
    indexers = {"elmo": {"type": "elmo"}, "tokens": {"type": "single_id"}}
    name = request.param
    config = {"type": "sequence_tagging", "token_indexers": {name: indexers[name]}}
    reader = DatasetReader.from_params(Params(config))
    instance = reader.text_to_instance([Token(x) for x in "abc"], ["X", "Y", "Z"])  # type: ignore[call-arg]
    reader.apply_token_indexers(instance)
    model = {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {name: embedders[name]}},
        "encoder": {"type": "lstm", "input_size": 16, "hidden_size": 4},
    }
    vocab = Vocabulary.from_instances([instance])
    return Predictor.by_name("sentence_tagger")(
        Model.from_params(Params(model), vocab=vocab).eval(), reader, language="blank:en"
    )


def instances(predictor: Predictor, sentences: list[list[str]]) -> list[Instance]:
    make = predictor._dataset_reader.text_to_instance
    return [make([Token(word) for word in sentence]) for sentence in sentences]


def test_a_batch_has_the_tags_of_each_sentence_alone(predictor: Predictor) -> None:
    """The expected outputs are those of each sentence by itself, which has no padding."""
    together = predictor.predict_batch_instance(instances(predictor, SENTENCES))
    for sentence, found in zip(SENTENCES, together):
        [instance] = instances(predictor, [sentence])
        alone = predictor.predict_instance(instance)
        assert found["words"] == sentence
        assert found["tags"] == alone["tags"]
        assert found.keys() == alone.keys() == {"logits", "class_probabilities", "tags", "words"}
        for key in ("logits", "class_probabilities"):
            assert len(found[key]) == len(sentence)
            for row, expected in zip(found[key], alone[key]):
                assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("sentences", [[""], ["Hi .", " "], ["", ""]])
def test_a_text_without_tokens(predictor: Predictor, sentences: list[str]) -> None:
    """There is no tag to predict. AllenNLP's encoder ends in an `IndexError`, or in a batch the
    padding gets tags."""
    inputs = [{"sentence": sentence} for sentence in sentences]
    number = sum(sentence == "Hi ." for sentence in sentences) + 1
    message = rf"^instance {number} of {len(inputs)}: tokens: expected a text with tokens, found"
    with pytest.raises(InputError, match=message):
        predictor.predict_batch_json(inputs)
    if len(inputs) == 1:
        with pytest.raises(InputError, match=message):
            predictor.predict_json(inputs[0])


def test_the_command_names_the_input(predictor: Predictor, tmp_path: Path) -> None:
    """Any predictor's error has the file and the number of the last input that it got."""
    file = tmp_path / "input"
    file.write_text("".join(json.dumps({"sentence": x}) + "\n" for x in ("He ran .", "It .", "")))
    manager = predict._PredictManager(predictor, str(file), None, 1, False, False)
    with pytest.raises(InputError, match=rf"^{file}, in the batch that ends with line 3: instance"):
        manager.run()
