"""
A word with a space, as Vietnamese and French have it, is the same word through everything that
takes a token. The oracle is AllenNLP's stock module with an underscore instead of the space.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from allennlp.data import Batch, DatasetReader, Instance, Token
from allennlp.data.fields import TextField
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.predictors import Predictor

from elmo_plugin import Elmo, ElmoEmbedder, LanguageModel
from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
from elmo_plugin.adapters.spacy_component import ElmoComponent
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.token_embedders import elmo_token_embedder
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.lines import read_sentences
from tests.compare import assert_close

Tokens = list[str]
WRITTEN = "Sinh_viên paid 26_000 euros in New_York .".split()
"""Tokens of which none occurs twice."""


@DatasetReader.register("a_sentence_for_test")
class OneSentence(DatasetReader):
    """Reads one sentence for any path."""

    tokens: Tokens

    def _read(self, file_path: str) -> Iterator[Instance]:
        yield Instance({"text": TextField([Token(token) for token in self.tokens])})

    def apply_token_indexers(self, instance: Instance) -> None:
        pass


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


def indexed(instance: Instance) -> torch.Tensor:
    instance.index_fields(BiLMVocabulary.from_words(SPECIAL_WORDS))
    batch = Batch([instance]).as_tensor_dict()
    return batch["source"]["elmo"]["elmo_tokens"]  # type: ignore[index, call-overload]


def by_indexer(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    field = TextField([Token(token) for token in tokens], {"elmo": ElmoTokenIndexer()})
    return elmo.layers(indexed(Instance({"source": field})), False)[0][-1][0].detach().numpy()


def by_reader(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    reader = BiLMDatasetReader()
    instance = reader.text_to_instance(tokens)
    reader.apply_token_indexers(instance)
    assert instance["metadata"].metadata == instance["targets"].words == WRITTEN  # type: ignore[attr-defined]
    return elmo.layers(indexed(instance), False)[0][-1][0].detach().numpy()


def by_cached_words(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    table = elmo_token_embedder._table(["@@PADDING@@", *tokens], elmo.bilm)
    ids = elmo.bilm.resize_characters(table[None, 1:].long())  # type: ignore[index]
    return elmo.layers(ids, False)[0][-1][0].detach().numpy()


def by_predictor(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    predictor = Predictor.from_path("pretrained://tiny", "elmo", import_plugins=False)
    predictor._model.initial_state = "zero"  # type: ignore[assignment]
    found = predictor.predict_json({"tokens": tokens})
    assert found["tokens"] == WRITTEN
    return np.array(found["layers"][-1])


def by_characters_of_spans(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
    starts = ends - [len(token) for token in tokens]
    return elmo.embed_spans([tokens] * len(tokens), starts, ends)


def by_uses(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    found = elmo.uses([tokens], WRITTEN)
    assert [*found["token"]] == WRITTEN and {*found["text"]} == {" ".join(WRITTEN)}
    return np.stack(found["vector"])


def by_spacy(elmo: Elmo, tokens: Tokens) -> np.ndarray:
    tokenized = pytest.importorskip("spacy.tokens").Doc
    doc = tokenized(pytest.importorskip("spacy").vocab.Vocab(), words=tokens)
    return ElmoComponent("tiny", "top", initial_state="zero").vectors([doc])[0]


def numbers(tokens: Tokens) -> list[range]:
    return [range(len(tokens)), range(1, len(tokens) + 1)]


WAYS: dict[str, Callable[[Elmo, Tokens], np.ndarray]] = {
    "a list of lists": lambda elmo, tokens: elmo.embed([["A"], tokens], "top")[1],
    "a column": lambda elmo, tokens: elmo.embed(pandas.Series([tokens]), "top")[0],
    "stream": lambda elmo, tokens: next(elmo.stream([tokens], "top")),
    "characters": lambda elmo, tokens: by_characters_of_spans(elmo, tokens),
    "tokens": lambda elmo, x: elmo.embed_spans([x] * len(x), *numbers(x), unit="tokens"),
    "uses": by_uses,
    "indexer": by_indexer,
    "reader": by_reader,
    "vocab_to_cache": by_cached_words,
    "predictor": by_predictor,
    "AllenNLP 0.9": lambda elmo, tokens: ElmoEmbedder("pretrained://tiny").embed_sentence(tokens)[
        -1
    ],
    "spaCy": by_spacy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("space", [" ", "\u00a0", "\u3000", "  "])
def test_every_way(elmo: Elmo, expected: np.ndarray, way: str, space: str) -> None:
    """The vectors are those of the stock module."""
    tokens = [token.replace("_", space) for token in WRITTEN]
    assert_close(WAYS[way](elmo, tokens), expected, what=way, atol=1e-5)


def test_the_text_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text has as many tokens as the task, with their spaces as underscores."""
    monkeypatch.setenv("CACHED_PATH_CACHE_ROOT", str(tmp_path / "texts"))
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "texts"))
    OneSentence.tokens = [token.replace("_", " ") for token in WRITTEN]
    config = {"dataset_reader": {"type": "a_sentence_for_test"}, "train_data_path": "data"}
    (tmp_path / "task.json").write_text(json.dumps(config))
    assert [*read_sentences(f"task://{tmp_path}/task.json#train_data_path")] == [WRITTEN]


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
