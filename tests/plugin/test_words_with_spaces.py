"""
A word with a space, as Vietnamese and French have it, is the same word through everything that
takes a token. The oracle is AllenNLP's stock module with an underscore instead of the space.
tests/corpora/test_uses.py and tests/adapters/test_spacy_component.py have such words too.
"""

from collections.abc import Callable

import numpy as np
import pandas
import pytest
import torch
from allennlp.data import Batch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.predictors import Predictor

from elmo_plugin import Elmo, ElmoEmbedder, LanguageModel
from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.token_embedders import elmo_token_embedder
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.text.characters import SPECIAL_WORDS
from tests.compare import assert_close

Tokens = list[str]
WRITTEN = "Sinh_viên paid 26_000 euros in New_York .".split()
"""Tokens of which none occurs twice."""


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """The top layer of the stock module, whose first sentence starts from zeros, `(n, 2P)`."""
    files = pretrained_files("tiny")
    stock = StockElmo(files.options_file, files.weight_file, 1)._elmo_lstm.eval()
    with torch.no_grad():
        return stock(batch_to_ids([WRITTEN]))["activations"][-1][0, 1:-1].numpy()


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained("tiny", initial_state="zero")


def read(elmo: Elmo, ids: torch.Tensor) -> np.ndarray:
    """The top layer of a sentence as character ids."""
    return elmo.layers(ids, False)[0][-1][0].detach().numpy()


def by_reader(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    reader = BiLMDatasetReader()
    instance = reader.text_to_instance(tokens)
    reader.apply_token_indexers(instance)
    assert instance["metadata"].metadata == instance["targets"].words == WRITTEN  # type: ignore[attr-defined]
    instance.index_fields(BiLMVocabulary.from_words(SPECIAL_WORDS))
    batch = Batch([instance]).as_tensor_dict()
    return read(elmo, batch["source"]["elmo"]["elmo_tokens"])  # type: ignore[index, call-overload]


def by_cached_words(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    table = elmo_token_embedder._table(["@@PADDING@@", *tokens], elmo.bilm)
    return read(elmo, elmo.bilm.resize_characters(table[None, 1:].long()))  # type: ignore[index]


def by_predictor(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    predictor = Predictor.from_path("pretrained://tiny", "elmo", import_plugins=False)
    predictor._model.initial_state = "zero"  # type: ignore[assignment]
    found = predictor.predict_json({"tokens": tokens})
    assert found["tokens"] == WRITTEN
    return np.array(found["layers"][-1])


def by_spans(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    lengths = [len(token) for token in tokens]
    ends = np.cumsum([length + 1 for length in lengths]) - 1
    return elmo.embed_spans([tokens] * len(tokens), ends - lengths, ends)


def by_allennlp_09(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    return ElmoEmbedder("pretrained://tiny").embed_sentence(tokens)[-1]


WAYS: dict[str, Callable[[Elmo, Tokens], np.ndarray]] = {
    "a list of lists": lambda elmo, tokens: elmo.embed([["A"], tokens], "top")[1],
    "a column": lambda elmo, tokens: elmo.embed(pandas.Series([tokens]), "top")[0],
    "stream": lambda elmo, tokens: next(elmo.stream([tokens], "top")),
    "spans of characters": by_spans,
    "reader": by_reader,
    "vocab_to_cache": by_cached_words,
    "predictor": by_predictor,
    "AllenNLP 0.9": by_allennlp_09,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("space", [" ", "\u00a0", "  "])
def test_every_way(elmo: Elmo, expected: np.ndarray, way: str, space: str) -> None:
    """The vectors are those of the stock module."""
    tokens = [token.replace("_", space) for token in WRITTEN]
    assert_close(WAYS[way](elmo, tokens), expected, what=way, atol=1e-5)


def test_means_of_sentences(expected: np.ndarray) -> None:
    """The mean of the stock module's vectors."""
    tokens = [token.replace("_", " ") for token in WRITTEN]
    found = ElmoVectors("tiny", "top", initial_state="zero").fit_transform([tokens])
    assert_close(found[0], expected.mean(axis=0), what="mean", atol=1e-5)


def test_scores() -> None:
    """The scores, continuations and substitutes are those of the sentence with underscores."""
    model = LanguageModel.from_pretrained("tiny")
    tokens = [token.replace("_", " ") for token in WRITTEN]
    (found,), written = model.score([tokens]), model.score(" ".join(WRITTEN))
    assert found.tokens == WRITTEN
    assert_close(found.forward, written.forward, what="forward", atol=1e-5)
    assert_close(found.backward, written.backward, what="backward", atol=1e-5)
    after = model.score_continuations([tokens[:2]], [[tokens[2:4]]])[0]
    assert_close(after, model.score_continuations(WRITTEN[:2], [WRITTEN[2:4]]), what="", atol=1e-5)
    assert model.substitutes([tokens], [[1]])[0] == model.substitutes(WRITTEN, [1])
