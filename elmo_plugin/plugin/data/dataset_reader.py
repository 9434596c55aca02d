"""Reads text, one sentence per line, into AllenNLP instances."""

import os
from collections.abc import Iterator
from typing import Optional

import torch
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import MetadataField, TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer

from elmo_plugin.checks import InputError, fail
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.data.vocabulary import word_ids
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS, UNKNOWN
from elmo_plugin.text.corpus import EncodedCorpus, is_corpus
from elmo_plugin.text.forms import tokens_of
from elmo_plugin.text.lines import read_sentences


class WordIdsField(Field[torch.Tensor]):
    """
    The ids of the words of a sentence, without boundaries, in the namespace `words`. Unknown words
    always become `<UNK>`, because AllenNLP does not restore a vocabulary's own OOV token when
    reading it. The tensor has shape `(T,)`, int64, padded with -100, and shape `(B, T)` in a batch.
    """

    __slots__ = ["_ids", "words"]

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self._ids: list[int] | None = None

    def __len__(self) -> int:  # the batch sampler `bucket` asks all fields
        return len(self.words)

    def index(self, vocab: Vocabulary) -> None:
        ids = word_ids(vocab)
        self._ids = [ids.get(word, UNKNOWN) for word in self.words]

    def get_padding_lengths(self) -> dict[str, int]:
        return {"num_tokens": len(self.words)}

    def as_tensor(self, padding_lengths: dict[str, int]) -> torch.Tensor:
        assert self._ids is not None  # AllenNLP calls `index` before
        tensor = torch.full((padding_lengths["num_tokens"],), IGNORE)
        tensor[: len(self._ids)] = torch.tensor(self._ids)
        return tensor


@DatasetReader.register("bilm")
class BiLMDatasetReader(DatasetReader):
    """
    Reads text with one sentence per line, tokens separated by whitespace (as `str.split` has it,
    which includes no-break and ideographic spaces). Blank lines are skipped. The path may be an
    encoded corpus, or text: a file, a glob, a folder, or anything else that `cached_path` resolves,
    plain or compressed with gzip, xz or zstd. Sentences are read lazily.

    Registered as a `DatasetReader` with name "bilm".

    An instance has the fields:

    * `source`, a `TextField` of the tokens, without sentence boundaries, which the model adds;
    * `targets`, a `WordIdsField`: their ids in the namespace `words`;
    * `metadata`, a `MetadataField`: the tokens as strings.

    # Parameters

    token_indexers : `Dict[str, TokenIndexer]`, optional
        By default `{"elmo": ElmoTokenIndexer(max_characters_per_token)}`.
    max_characters_per_token : `int`, optional (default = `50`)
        The model's `max_characters_per_token`, for the default indexer and the data loader "bilm".
    max_instances : `int`, optional
        See `DatasetReader`. Not supported by the data loader "bilm".
    serialization_dir : `str`, optional
        See `DatasetReader`.
    """

    def __init__(
        self,
        # AllenNLP builds a dictionary's values for `Optional`, but not for `|`.
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        max_characters_per_token: int = DEFAULT_MAX_CHARACTERS,
        max_instances: Optional[int] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        name = 'dataset_reader of type "bilm"'
        default = ElmoTokenIndexer(max_characters_per_token=max_characters_per_token)
        self._token_indexers: dict[str, TokenIndexer] = token_indexers or {"elmo": default}
        for key, indexer in self._token_indexers.items():
            # The data loader and the predictors spell words without the indexer.
            if isinstance(indexer, ELMoTokenCharactersIndexer) and indexer._mapper.tokens_to_add:
                found = indexer._mapper.tokens_to_add
                fail(f"{name}: token_indexers, {key}: tokens_to_add", "none", found)
        super().__init__(
            max_instances=max_instances,
            serialization_dir=serialization_dir,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
        )
        self.max_characters_per_token = max_characters_per_token

    def _read(self, file_path: str) -> Iterator[Instance]:
        for tokens in self.shard_iterable(_sentences(file_path)):
            yield self.text_to_instance(tokens)

    def text_to_instance(self, tokens: str | list[str]) -> Instance:  # type: ignore[override]
        """
        Make the instance of a sentence. A string is split at whitespace, as by `str.split`. Raises
        an `InputError` for a list with something else than tokens; see `Elmo.embed`.
        """
        words = tokens_of("tokens", tokens)
        return Instance(
            {
                "source": TextField([Token(word) for word in words]),
                "targets": WordIdsField(words),
                "metadata": MetadataField(words),
            }
        )

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["source"].token_indexers = self._token_indexers  # type: ignore[attr-defined]


def _sentences(path: str) -> Iterator[list[str]]:
    """
    The sentences of a text or an encoded corpus. Raises an `InputError` if there are none, because
    all metrics would be NaN.
    """
    is_empty = True
    path = os.path.expanduser(path)
    for tokens in EncodedCorpus(path).sentences() if is_corpus(path) else read_sentences(path):
        is_empty = False
        yield tokens
    if is_empty:
        raise InputError(f"{path}: expected sentences, found no token")
