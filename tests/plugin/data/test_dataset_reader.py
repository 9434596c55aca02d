from pathlib import Path
from typing import Any, cast

import pytest
from allennlp.data import Batch, Vocabulary
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.fields import MetadataField
from allennlp.data.samplers import BucketBatchSampler
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.encoding import encode_corpus
from tests.conftest import write_file

TEXT = "the dog barks\n\n \nthe 👍\nx\n"
SENTENCES = [["the", "dog", "barks"], ["the", "👍"], ["x"]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_file(tmp_path / "text.txt", TEXT)


def words_of(instances) -> list[list[str]]:
    return [cast(MetadataField, instance["metadata"]).metadata for instance in instances]


def test_sentences_of_text_and_of_a_corpus(tmp_path, file, monkeypatch):
    """There is one sentence for each line that is not blank, and an encoded corpus gives the same
    text. `~` is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    reader = BiLMDatasetReader()
    encode_corpus([file], tmp_path / "corpus")
    assert words_of(reader.read(str(file))) == SENTENCES
    assert words_of(reader.read(str(tmp_path / "corpus"))) == SENTENCES
    assert words_of(reader.read("~/corpus")) == SENTENCES
    assert words_of(BiLMDatasetReader(max_instances=2).read(str(file))) == SENTENCES[:2]


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_text_without_sentences_is_refused(tmp_path: Path, text: str) -> None:
    """Metrics of no sentence are NaN. A process without a sentence of its own is not an error."""
    file = write_file(tmp_path / "empty.txt", text)
    with pytest.raises(InputError, match=r"empty\.txt: expected sentences, found no token"):
        list(BiLMDatasetReader().read(file))
    file.write_text("one\n")
    reader = BiLMDatasetReader()
    reader._set_worker_info(WorkerInfo(2, 1))
    assert list(reader.read(file)) == []


@pytest.mark.parametrize("oov_token", ["@@UNKNOWN@@", "<UNK>"])
def test_the_tensors_of_a_batch(tmp_path: Path, file: Path, oov_token: str) -> None:
    """Ids are the vocabulary's line numbers, 2 for words that it lacks and -100 at padding.
    Characters are those of `words_to_characters`, and 0 at padding."""
    vocab = BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", "the", "dog"])
    vocab.save_to_files(str(tmp_path / "v"))
    batch = Batch(BiLMDatasetReader(max_characters_per_token=10).read(str(file)))
    batch.index_instances(Vocabulary.from_files(tmp_path / "v", oov_token=oov_token))
    tensors: dict[str, Any] = batch.as_tensor_dict()
    assert set(tensors) == {"source", "targets", "metadata"}
    assert tensors["targets"].tolist() == [[3, 4, 2], [3, 2, -100], [2, -100, -100]]
    characters = tensors["source"]["elmo"]["elmo_tokens"]
    assert characters.shape == (3, 3, 10)
    assert characters[0].tolist() == words_to_characters(SENTENCES[0], 10).tolist()
    assert characters[2, 1:].tolist() == [[0] * 10] * 2
    assert tensors["metadata"] == SENTENCES


def test_text_to_instance_takes_a_string_or_tokens() -> None:
    """An empty sentence is a sentence too, in which only the boundaries are predicted, and in a
    batch a row of padding."""
    reader = BiLMDatasetReader()
    instances = [reader.text_to_instance(text) for text in (" the  dog ", ["the", "dog"], "")]
    for instance in instances:
        reader.apply_token_indexers(instance)
    batch = Batch(instances)
    batch.index_instances(BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", "dog", "the"]))
    tensors: dict[str, Any] = batch.as_tensor_dict()
    assert tensors["targets"].tolist() == [[4, 3], [4, 3], [-100, -100]]


def test_buckets_have_sentences_of_similar_length(file: Path) -> None:
    """The batch sampler guesses the field to sort by from the lengths of all fields."""
    instances = list(BiLMDatasetReader().read(str(file)))
    sampler = BucketBatchSampler(batch_size=2, padding_noise=0)
    assert sorted(sampler.get_batch_indices(instances)) == [[0], [2, 1]]


def test_worker_processes_share_the_sentences(file: Path) -> None:
    """Two workers of AllenNLP's loader together read every sentence once."""
    found = []
    for worker in range(2):
        reader = BiLMDatasetReader()
        reader._set_worker_info(WorkerInfo(2, worker))
        found.append(words_of(reader.read(str(file))))
    assert found == [SENTENCES[::2], SENTENCES[1::2]]


@pytest.mark.parametrize("kind", [ElmoTokenIndexer, ELMoTokenCharactersIndexer])
def test_tokens_to_add_are_refused(kind: type) -> None:
    """The data loader "bilm" would spell such a token by its bytes, so the model never sees it."""
    message = r"token_indexers, elmo: tokens_to_add: expected none, found \{'<num>': 1\}"
    with pytest.raises(InputError, match=message):
        BiLMDatasetReader({"elmo": kind(tokens_to_add={"<num>": 1})})
