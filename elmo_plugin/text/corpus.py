"""
An encoded corpus: text as numbers on disk, which are memory-mapped.

A corpus is a folder with the files

    corpus.json           description, with a digest of itself and of each other file
    words.txt             each distinct word, one per line, in UTF-8: `<S>`, `</S>`, `<UNK>`, then
                          by falling frequency; words of equal frequency by first occurrence
    word_offsets.npy      (W + 1,) int64, offset of each word in words.txt
    word_counts.npy       (W,) int64, number of occurrences of each word in the text
    tokens-00000.npy      int32, the words' ranks, in reading order, without boundaries
    sentences-00000.npy   int64, offset of each sentence in the tokens, and the end of the last one
    tokens-00001.npy ...  the next shard

Digests are checked when a corpus is opened, except those of tokens-*, which are checked when a
shard is read, so that opening a billion words stays cheap. The digest of an array covers only its
numbers.

A word's characters are its UTF-8 bytes, so words.txt serves models of every
`max_characters_per_token`. It is also a vocabulary file in bilm-tf's format.
"""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest, is_sealed
from elmo_plugin.text.characters import (
    BEGIN,
    BEGIN_SENTENCE,
    END,
    END_SENTENCE,
    bytes_to_characters,
    single_character,
)

FORMAT = "elmo_plugin encoded corpus"
FORMAT_VERSION = 2

DESCRIPTION_FILE = "corpus.json"
WORDS_FILE = "words.txt"
OFFSETS_FILE = "word_offsets.npy"
COUNTS_FILE = "word_counts.npy"


class CorpusError(InputError):
    """A file of an encoded corpus is missing, damaged, or of another version."""


class Shard(NamedTuple):
    """
    A part of the text, in whole sentences: word ranks, shape `(tokens,)`, int32; and offsets of the
    sentences into them, shape `(sentences + 1,)`, int64.
    """

    tokens: np.ndarray
    sentences: np.ndarray

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1


def shard_files(folder: Path, index: int) -> tuple[Path, Path]:
    """The files of a shard's tokens and sentences."""
    return folder / f"tokens-{index:05}.npy", folder / f"sentences-{index:05}.npy"


class EncodedCorpus:
    """
    A corpus written by `encode_corpus`. A missing or damaged file, or one of another version,
    raises a `CorpusError`. `description` is the content of corpus.json: `tokens`, `sentences`,
    `words`, `shards` (number of tokens of each), `files` (of the text), and `digests` (one for each
    other file).
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = folder = Path(folder)
        self.description = description = read_description(folder)
        self.num_tokens: int = description["tokens"]
        self.num_sentences: int = description["sentences"]
        self.num_words: int = description["words"]
        self.digests: dict[str, str] = description["digests"]
        self._offsets = self._open(folder / OFFSETS_FILE, np.int64)
        self.counts = self._open(folder / COUNTS_FILE, np.int64)
        self._text = self._open(folder / WORDS_FILE, np.uint8)
        self.shards = [
            self._open_shard(index, tokens) for index, tokens in enumerate(description["shards"])
        ]

    def words(self) -> list[str]:
        """All distinct words, in the order of their ranks."""
        return self._text.tobytes().decode("utf-8").split("\n")[:-1]

    def word_lengths(self) -> np.ndarray:
        """The length of each word in UTF-8 bytes, shape `(W,)`."""
        return np.diff(self._offsets) - 1

    def characters(self, ranks: np.ndarray, max_characters_per_token: int) -> np.ndarray:
        """
        The character ids of the words `ranks`, shape `(N,)`. Returns shape `(N, C)`, int16, where C
        is `max_characters_per_token`.
        """
        starts = self._offsets[ranks]
        lengths = self._offsets[ranks + 1] - 1 - starts
        rows = bytes_to_characters(self._text, starts, lengths, max_characters_per_token)
        rows[ranks == BEGIN] = single_character(BEGIN_SENTENCE, max_characters_per_token)
        rows[ranks == END] = single_character(END_SENTENCE, max_characters_per_token)
        return rows

    def load_tokens(self, index: int) -> np.ndarray:
        """Read and check the tokens of a shard, shape `(tokens,)`, int32."""
        tokens = np.array(self.shards[index].tokens)
        self._check(shard_files(self.folder, index)[0], tokens)
        return tokens

    def sentences(self) -> Iterator[list[str]]:
        """The sentences of the text, each a list of tokens."""
        words = self.words()
        for index, shard in enumerate(self.shards):
            tokens = self.load_tokens(index)
            for start, end in pairwise(shard.sentences.tolist()):
                yield [words[rank] for rank in tokens[start:end].tolist()]

    def _open_shard(self, index: int, num_tokens: int) -> Shard:
        tokens_file, sentences_file = shard_files(self.folder, index)
        tokens = _map(tokens_file, np.int32)
        if len(tokens) != num_tokens:
            raise CorpusError(f"{tokens_file}: expected {num_tokens} tokens, found {len(tokens)}")
        return Shard(tokens, self._open(sentences_file, np.int64))

    def _open(self, file: Path, dtype: type) -> np.ndarray:
        array = _map(file, dtype)
        self._check(file, array)
        return array

    def _check(self, file: Path, array: np.ndarray) -> None:
        if digest(array) != self.digests[file.name]:
            raise CorpusError(
                f"{file}: expected the content that was written, found damage (its digest is not "
                f"that in {DESCRIPTION_FILE}); encode the text again, or remove the folder if it "
                "is in a cache of corpora"
            )


def is_corpus(path: str | os.PathLike) -> bool:
    """Whether the path is the folder of an encoded corpus."""
    return os.path.isfile(os.path.join(path, DESCRIPTION_FILE))


def read_description(folder: Path) -> dict[str, Any]:
    """Read corpus.json and check its kind, version and digest."""
    file = folder / DESCRIPTION_FILE
    try:
        description = json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorpusError(f"{folder}: expected an encoded corpus, found no {file.name}") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{file}: expected JSON, found damage ({error})") from error
    known = description if isinstance(description, dict) else {}
    if (found := (known.get("format"), known.get("version"))) != (FORMAT, FORMAT_VERSION):
        raise CorpusError(
            f"{file}: expected {FORMAT!r} of version {FORMAT_VERSION}, found {found}; "
            "encode the text again"
        )
    if not is_sealed(description):
        raise CorpusError(f"{file}: expected content that has its own digest, found damage")
    return description


def _map(file: Path, dtype: type) -> np.ndarray:
    """Memory-map the numbers of a file, shape `(N,)`."""
    try:
        if file.suffix == ".npy":
            array = open_memmap(file, mode="r")
        else:
            array = np.memmap(file, dtype, mode="r")
    except FileNotFoundError as error:
        raise CorpusError(f"{file}: expected a file of the encoded corpus, found none") from error
    except OSError:  # for example no permission; its message names the file
        raise
    except Exception as error:  # NumPy raises many kinds of errors for a damaged header
        raise CorpusError(f"{file}: expected a whole file, found damage ({error})") from error
    if array.dtype != dtype or array.ndim != 1:
        raise CorpusError(
            f"{file}: expected one dimension of {np.dtype(dtype)}, "
            f"found {array.dtype} of shape {array.shape}"
        )
    return array
