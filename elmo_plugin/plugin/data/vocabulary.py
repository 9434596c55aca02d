"""
The words that a language model predicts, as an AllenNLP vocabulary.

They have a separate namespace without padding. `<S>`, `</S>` and `<UNK>` come first, then the words
by descending frequency, so that a word's id is its rank, as log-uniform sampling assumes.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Optional

import numpy as np
from allennlp.data.vocabulary import DEFAULT_NON_PADDED_NAMESPACES, Vocabulary

from elmo_plugin.checks import InputError, fail, named, optional_count
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.bilm_tf.texts import read_vocabulary_file
from elmo_plugin.text.characters import SPECIAL_WORDS, UNKNOWN, UNKNOWN_TOKEN
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus

WORDS_NAMESPACE = "words"
DEFAULT_MIN_COUNT = 3
DEFAULT_MAX_SIZE = 100_000

NEWLINE_ESCAPE = "@@NEWLINE@@"
"""Escape of a line break in AllenNLP's vocabulary files."""


@Vocabulary.register("bilm", constructor="from_corpus")
class BiLMVocabulary(Vocabulary):
    """
    A vocabulary of the words of an encoded corpus or of bilm-tf's vocabulary file.

    Registered as a `Vocabulary` with name "bilm" and the constructor `from_corpus`. AllenNLP's own
    `Vocabulary.from_files` reads its saved files with the same ids.
    """

    @classmethod
    def from_corpus(
        cls,
        # AllenNLP checks the type of `Optional`, but not of `|`.
        corpus: Optional[str] = None,
        file: Optional[str] = None,
        max_size: int | None = None,
        min_count: int | None = None,
        cache_dir: Optional[str] = None,
    ) -> "BiLMVocabulary":
        """
        Make the vocabulary of a corpus or a vocabulary file.

        # Parameters

        corpus : `str`, optional
            Path of a text or of an encoded corpus, as for the `bilm` data loader.
        file : `str`, optional
            Vocabulary file instead of `corpus`: one word per line, sorted by frequency, after
            `<S>`, `</S>` and `<UNK>`.
        max_size : `int`, optional
            Maximum number of words, including `<S>`, `</S>` and `<UNK>`. By default 100,000 words
            of a corpus, and all words of a file.
        min_count : `int`, optional
            Minimum count of a word in the corpus, by default 3. Only with `corpus`.
        cache_dir : `str`, optional
            Cache folder of encoded corpora.
        """
        name = 'vocabulary of type "bilm"'
        if (corpus is None) == (file is None):
            found = "neither" if corpus is None else "both"
            raise InputError(f'{name}: expected one of "corpus" and "file", found {found}')
        max_size = optional_count(f"{name}: max_size", max_size, least=len(SPECIAL_WORDS) + 1)
        if file is not None:
            if min_count is not None:
                raise InputError(f'{name}: "min_count" needs a "corpus", found a "file"')
            with named(f"{name}: file"):
                words = read_vocabulary_file(local_path(file, "a file of words, one per line"))
            return cls.from_words(words[:max_size])
        assert corpus is not None
        with named(f"{name}: corpus"):
            opened = open_corpus(corpus, cache_dir)
        max_size = DEFAULT_MAX_SIZE if max_size is None else max_size
        min_count = optional_count(f"{name}: min_count", min_count, least=0)
        min_count = DEFAULT_MIN_COUNT if min_count is None else min_count
        special = len(SPECIAL_WORDS)
        # The counts are sorted, so the frequent words are a prefix.
        frequent = special + int((opened.counts[special:] >= min_count).sum())
        readable = (word for word in opened.words()[:frequent] if NEWLINE_ESCAPE not in word)
        return cls.from_words(islice(readable, max_size))

    @classmethod
    def from_words(cls, words: Iterable[str]) -> "BiLMVocabulary":
        """
        Make the vocabulary of distinct words, first `<S>`, `</S>` and `<UNK>`, then by descending
        frequency. Raises an `InputError` if a word contains `@@NEWLINE@@`, which AllenNLP's
        vocabulary files use for a line break.
        """
        words = list(words)
        for word in words:
            if NEWLINE_ESCAPE in word:
                expected = f"words without {NEWLINE_ESCAPE}, which AllenNLP reads as a line break"
                fail('vocabulary of type "bilm"', expected, word)
        vocab = cls(
            non_padded_namespaces=[*DEFAULT_NON_PADDED_NAMESPACES, WORDS_NAMESPACE],
            oov_token=UNKNOWN_TOKEN,
        )
        # `add_tokens_to_namespace` takes seconds for the words of a large corpus.
        vocab._token_to_index[WORDS_NAMESPACE] = {word: index for index, word in enumerate(words)}
        vocab._index_to_token[WORDS_NAMESPACE] = dict(enumerate(words))
        return vocab


def word_ids(vocab: Vocabulary) -> dict[str, int]:
    """
    The id of each word of a language model's vocabulary. Raises an `InputError` if the namespace
    `words` does not begin with `<S>`, `</S>` and `<UNK>`.
    """
    ids = vocab.get_token_to_index_vocabulary(WORDS_NAMESPACE)
    found = [ids.get(word) for word in SPECIAL_WORDS]
    if found != list(range(len(SPECIAL_WORDS))):
        raise InputError(
            f'vocabulary, namespace "{WORDS_NAMESPACE}": expected {", ".join(SPECIAL_WORDS)} with '
            f"the ids 0, 1, 2, found {found}; a language model needs the vocabulary of type"
            ' "bilm"'
        )
    return ids


def vocabulary_words(vocab: Vocabulary) -> list[str]:
    """A language model's words in the order of their ids."""
    return sorted(ids := word_ids(vocab), key=ids.__getitem__)


def ids_of_corpus_words(corpus: EncodedCorpus, vocab: Vocabulary) -> np.ndarray:
    """
    The vocabulary id of each distinct word of a corpus, shape `(W,)`, int64. Unknown words have the
    id of `<UNK>`.
    """
    ids, words = word_ids(vocab), corpus.words()
    return np.fromiter((ids.get(word, UNKNOWN) for word in words), np.int64, count=len(words))
