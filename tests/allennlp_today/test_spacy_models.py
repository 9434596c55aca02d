import logging
from collections import Counter, defaultdict

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.data.tokenizers import SpacyTokenizer
from allennlp.data.tokenizers.sentence_splitter import SpacySentenceSplitter
from allennlp.predictors import Predictor

from allennlp_today import spacy_models

MISSING = "en_core_nowhere_sm"


@pytest.fixture(autouse=True)
def the_default_model_is_missing(monkeypatch):
    monkeypatch.setattr(spacy_models, "DEFAULT", MISSING)


def test_a_missing_model_is_a_blank_pipeline(caplog):
    """By hand: English tokens and two sentences. Without the patch, AllenNLP downloads the model,
    or raises where there is no network."""
    with caplog.at_level(logging.WARNING):
        tokens = SpacyTokenizer(MISSING).tokenize("It doesn't rain, Mr. Lee.")
    assert [t.text for t in tokens] == ["It", "does", "n't", "rain", ",", "Mr.", "Lee", "."]
    assert f"python -m spacy download {MISSING}" in caplog.text
    for name in (MISSING, "blank:en"):
        sentences = SpacySentenceSplitter(name).split_sentences("It rains. It does.")
        assert sentences == ["It rains.", "It does."]


def test_indexers_of_tags_raise():
    """The error is AllenNLP's own, for a token without a tag; an empty tag would be a word."""
    indexer = SingleIdTokenIndexer("tags", feature_name="pos_")
    (token,) = SpacyTokenizer(MISSING).tokenize("rain")
    with pytest.raises(ValueError, match="rain did not have attribute pos_"):
        indexer.count_vocab_items(token, defaultdict(Counter))


@pytest.mark.parametrize(
    "name",
    ["semantic_role_labeling", "open_information_extraction", "constituency_parser"]
    + ["biaffine_dependency_parser"],
)
def test_predictors_that_read_tags_refuse_text(name):
    """They predict from instances, but do not mistake a text without verbs for an answer."""
    predictor = Predictor.by_name(name)(torch.nn.Linear(1, 1), None, language=MISSING)
    with pytest.raises(ConfigurationError, match=r"part-of-speech tags.*use-dataset-reader"):
        predictor.predict_json({"sentence": "It rains."})


@pytest.mark.parametrize("name", ["gone/folder", "qx_core_web_sm"])
def test_other_names_are_errors(name):
    """A folder, and a model that is not AllenNLP's default."""
    with pytest.raises(ConfigurationError, match=f"find model '{name}'"):
        SpacyTokenizer(name)
