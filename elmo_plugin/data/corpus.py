"""
An encoded corpus: a text as numbers on the disk, mapped into memory, never read into it whole.

A corpus is a folder:

    corpus.json           what there is; the other files are checked against it
    words.txt             each distinct word, one a line, in UTF-8: `<S>`, `</S>`, `<UNK>`, then by
                          falling frequency, and by first occurrence where that is equal
    word_offsets.npy      (W + 1,) int64, where each word starts in words.txt
    word_counts.npy       (W,) int64, how often each word occurs in the text
    tokens-00000.npy      int32, the words' ranks, in reading order, without boundaries
    sentences-00000.npy   int64, where each sentence starts in the tokens, and the last one's end
    documents-00000.npy   int64, where each document starts in the sentences, and the last one's end
    tokens-00001.npy ...  the next shard

A word's characters are its UTF-8 bytes, so words.txt holds them for every model, whatever its
`max_characters_per_token`; and it is a vocabulary file as bilm-tf has it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from elmo_plugin.data.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    END_SENTENCE,
    END_TOKEN,
    bytes_to_characters,
    single_character,
)

FORMAT = "elmo_plugin encoded corpus"
VERSION = 1

DESCRIPTION_FILE = "corpus.json"
WORDS_FILE = "words.txt"
OFFSETS_FILE = "word_offsets.npy"
COUNTS_FILE = "word_counts.npy"

UNKNOWN_TOKEN = "<UNK>"
SPECIAL_WORDS = (BEGIN_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""The first words of every corpus and of every vocabulary."""
BEGIN, END, UNKNOWN = range(3)
"""The ranks of `SPECIAL_WORDS`."""


class CorpusError(ValueError):
    """An encoded corpus's file is missing, damaged, or of another version."""


@dataclass(frozen=True)
class Shard:
    """
    A part of the running text, of whole sentences.

    # Parameters

    tokens : `np.ndarray`
        Word ranks. *Shape:* `(tokens,)` int32.
    sentences : `np.ndarray`
        Offsets into `tokens`. *Shape:* `(sentences + 1,)` int64.
    documents : `np.ndarray`
        Offsets into the sentences. *Shape:* `(documents + 1,)` int64.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1


def shard_files(folder: Path, index: int) -> tuple[Path, Path, Path]:
    """The files of a shard's tokens, sentences and documents."""
    tokens, sentences, documents = (
        folder / f"{name}-{index:05}.npy" for name in ("tokens", "sentences", "documents")
    )
    return tokens, sentences, documents


class EncodedCorpus:
    """
    A corpus that `elmo_plugin.data.encoding.encode` has written; made by `open`.

    # Parameters

    folder : `Path`
        Where it lies.
    description : `dict[str, Any]`
        corpus.json: `tokens`, `sentences`, `documents`, `words`, `shards` (the tokens of each),
        and `files`, the text that it was made from.
    """

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder = folder
        self.description = description
        self.num_tokens: int = description["tokens"]
        self.num_sentences: int = description["sentences"]
        self.num_documents: int = description["documents"]
        self.num_words: int = description["words"]
        self._offsets = _load(folder / OFFSETS_FILE, np.int64, self.num_words + 1)
        self.counts = _load(folder / COUNTS_FILE, np.int64, self.num_words)
        self._text = _map_bytes(folder / WORDS_FILE, int(self._offsets[-1]))
        self.shards = [
            _open_shard(folder, index, tokens) for index, tokens in enumerate(description["shards"])
        ]
        if sum(shard.num_sentences for shard in self.shards) != self.num_sentences:
            raise CorpusError(
                f"{folder / DESCRIPTION_FILE}: expected the {self.num_sentences} sentences that it "
                f"names, found {sum(shard.num_sentences for shard in self.shards)} in the shards"
            )

    @classmethod
    def open(cls, folder: str | os.PathLike) -> "EncodedCorpus":
        """
        Opens a corpus.

        # Raises

        `CorpusError`
            Naming the file that is missing, damaged, or of another version.
        """
        folder = Path(folder)
        return cls(folder, read_description(folder))

    def words(self) -> list[str]:
        """All distinct words, in the order of their ranks."""
        return (self.folder / WORDS_FILE).read_text("utf-8").split("\n")[:-1]

    def word_lengths(self) -> np.ndarray:
        """The length of each word in UTF-8 bytes. *Shape:* `(W,)`."""
        return np.diff(self._offsets) - 1

    def characters(self, ranks: np.ndarray, max_characters_per_token: int) -> np.ndarray:
        """
        The character ids of words.

        # Parameters

        ranks : `np.ndarray`
            *Shape:* `(N,)`.
        max_characters_per_token : `int`
            C.

        # Returns

        `np.ndarray`
            *Shape:* `(N, C)` int16.
        """
        starts = self._offsets[ranks]
        lengths = self._offsets[ranks + 1] - 1 - starts
        rows = bytes_to_characters(self._text, starts, lengths, max_characters_per_token)
        rows[ranks == BEGIN] = single_character(BEGIN_SENTENCE, max_characters_per_token)
        rows[ranks == END] = single_character(END_SENTENCE, max_characters_per_token)
        return rows

    def load_tokens(self, index: int) -> np.ndarray:
        """The tokens of a shard, read into memory and checked. *Shape:* `(tokens,)` int32."""
        tokens = np.array(self.shards[index].tokens)
        if not 0 <= tokens.min() <= tokens.max() < self.num_words:
            raise CorpusError(
                f"{shard_files(self.folder, index)[0]}: expected ranks from 0 to "
                f"{self.num_words - 1}, found {tokens.min()} to {tokens.max()}"
            )
        return tokens

    def sentences(self) -> Iterator[list[str]]:
        """The text again, a list of tokens a sentence."""
        words = self.words()
        for index, shard in enumerate(self.shards):
            tokens = self.load_tokens(index)
            for start, end in pairwise(shard.sentences.tolist()):
                yield [words[rank] for rank in tokens[start:end].tolist()]


def is_corpus(path: str | os.PathLike) -> bool:
    """True if the path is the folder of an encoded corpus."""
    return os.path.isfile(os.path.join(path, DESCRIPTION_FILE))


def read_description(folder: Path) -> dict[str, Any]:
    """corpus.json, checked for kind and version."""
    file = folder / DESCRIPTION_FILE
    try:
        description = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise CorpusError(f"{folder}: expected an encoded corpus, found no {file.name}") from error
    except ValueError as error:
        raise CorpusError(f"{file}: expected JSON, found damage ({error})") from error
    found = (
        (description.get("format"), description.get("version"))
        if isinstance(description, dict)
        else None
    )
    if found != (FORMAT, VERSION):
        raise CorpusError(
            f"{file}: expected {FORMAT!r} of version {VERSION}, found {found}; "
            "encode the text again"
        )
    return description


def _open_shard(folder: Path, index: int, num_tokens: int) -> Shard:
    tokens_file, sentences_file, documents_file = shard_files(folder, index)
    tokens = _load(tokens_file, np.int32, num_tokens)
    sentences = _load(sentences_file, np.int64)
    if sentences[0] != 0 or sentences[-1] != num_tokens:
        raise CorpusError(
            f"{sentences_file}: expected offsets from 0 to {num_tokens}, "
            f"found {sentences[0]} to {sentences[-1]}"
        )
    documents = _load(documents_file, np.int64)
    if documents[0] != 0 or documents[-1] != len(sentences) - 1:
        raise CorpusError(
            f"{documents_file}: expected offsets from 0 to {len(sentences) - 1}, "
            f"found {documents[0]} to {documents[-1]}"
        )
    return Shard(tokens, sentences, documents)


def _load(file: Path, dtype: type, length: int | None = None) -> np.ndarray:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise CorpusError(f"{file}: expected a file of the encoded corpus, found none") from error
    except (ValueError, EOFError) as error:
        raise CorpusError(f"{file}: expected a whole .npy file, found damage ({error})") from error
    wrong_length = (
        array.shape != (length,) if length is not None else array.ndim != 1 or not len(array)
    )
    if array.dtype != dtype or wrong_length:
        raise CorpusError(
            f"{file}: expected {np.dtype(dtype)} of shape "
            f"({'at least 1' if length is None else length},), "
            f"found {array.dtype} of shape {array.shape}"
        )
    return array


def _map_bytes(file: Path, length: int) -> np.ndarray:
    found = file.stat().st_size if file.exists() else None
    if found != length:
        raise CorpusError(f"{file}: expected {length} bytes, found {found}")
    return np.memmap(file, dtype=np.uint8, mode="r")
