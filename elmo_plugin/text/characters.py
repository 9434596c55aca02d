"""
The character ids of words in ELMo's models.

A word is its UTF-8 bytes between a begin-of-word and an end-of-word mark, padded to a fixed length.
A sentence boundary is one token with its own character. The ids are AllenNLP's, which are bilm-tf's
plus one, so that 0 can mean "no token here". These numbers appear only in this file.
"""

import logging
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from elmo_plugin.checks import check_count

logger = logging.getLogger(__name__)

NO_TOKEN = 0
"""Id of every character at a position without a token (the padding of a batch)."""
FIRST_BYTE = 1
"""Id of byte 0x00; byte b has the id `FIRST_BYTE + b`."""
NUM_BYTES = 256
MOST_BYTES_OF_CODE_POINT = 4
"""A code point takes one to four bytes in UTF-8."""
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING = 261
"""Id that fills a token's row after its end-of-word mark."""
NUM_CHARACTERS = 262
"""Number of ids, including `NO_TOKEN`."""

BEGIN_TOKEN = "<S>"
END_TOKEN = "</S>"
"""Words that represent a sentence's boundaries."""
UNKNOWN_TOKEN = "<UNK>"
SPECIAL_WORDS = (BEGIN_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
"""First words of every corpus and every vocabulary."""
BEGIN, END, UNKNOWN = range(3)
"""Ranks of `SPECIAL_WORDS`."""

DEFAULT_MAX_CHARACTERS = 50
"""`max_characters_per_token` of every published ELMo model."""

MOST_CHARACTERS = 1 << 12
"""Largest `max_characters_per_token`."""

MANY_CROPPED = 0.01
"""A larger share of cropped tokens gives a warning. In tokenized text they are rare, like URLs."""


def check_max_characters(name: str, max_characters_per_token: Any) -> None:
    """Check that the length has room for a word's two marks and one byte."""
    check_count(name, max_characters_per_token, least=3, most=MOST_CHARACTERS)


def single_character(character: int, max_characters_per_token: int) -> np.ndarray:
    """The ids of a token that consists of one character, shape `(C,)`, int16."""
    row = np.full(max_characters_per_token, PADDING, dtype=np.int16)
    row[:3] = BEGIN_WORD, character, END_WORD
    return row


def words_to_characters(
    words: Sequence[str], max_characters_per_token: int = DEFAULT_MAX_CHARACTERS
) -> np.ndarray:
    """
    The character ids of N words, shape `(N, C)`, int16, where C is `max_characters_per_token`,
    including the two marks of a word. `<S>` and `</S>` become the sentence boundaries.

    Bytes that do not fit between the two marks are cut off, even inside a code point. A lone
    surrogate has no UTF-8 bytes and is dropped. The empty string consists of its two marks.
    """
    encoded = [word.encode("utf-8", "ignore") for word in words]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    rows = bytes_to_characters(
        text, np.cumsum(lengths) - lengths, lengths, max_characters_per_token
    )
    for token, character in ((BEGIN_TOKEN, BEGIN_SENTENCE), (END_TOKEN, END_SENTENCE)):
        boundaries = [index for index, word in enumerate(words) if word == token]
        rows[boundaries] = single_character(character, max_characters_per_token)
    return rows


def count_cropped(words: Iterable[str], max_characters_per_token: int) -> int:
    """The number of words that are cropped, because they have too many bytes in UTF-8."""
    most = max_characters_per_token - 2
    return sum(4 * len(w) > most and len(w.encode("utf-8", "ignore")) > most for w in words)


def warn_of_cropped(
    name: str, n_cropped: int, n_tokens: int, max_characters_per_token: int
) -> None:
    """Warn if many tokens of the text `name` are cropped, as those of an unsegmented text are."""
    if n_cropped > MANY_CROPPED * n_tokens:
        logger.warning(
            f"{name}: {n_cropped:,} of its {n_tokens:,} tokens ({100 * n_cropped / n_tokens:.1f} "
            f"%) are longer than {max_characters_per_token - 2} bytes in UTF-8 and are cropped: "
            "are there spaces between its words? A text without them, such as Chinese, has to be "
            "tokenized first"
        )


@lru_cache(maxsize=1)
def warn_of_boundaries() -> None:
    """Warn, once in a process, that sentences contain tokens which are read as boundaries."""
    logger.warning(
        f"a sentence contains the token {BEGIN_TOKEN} or {END_TOKEN}, which is read as a sentence "
        "boundary. The biLM adds the boundaries of each sentence itself, so remove them from the "
        "text"
    )


@lru_cache(maxsize=1)
def warn_of_long_tokens(max_characters_per_token: int) -> None:
    """Warn, once in a process, that most tokens of some sentences are cropped."""
    logger.warning(
        f"most tokens of some sentences are longer than {max_characters_per_token - 2} bytes in "
        "UTF-8 and are cropped: is each string of a list one token? Several sentences are a list "
        "of lists, and the tokens of a protein are its letters: [list(protein)]"
    )


def word_to_characters(word: str, max_characters_per_token: int = DEFAULT_MAX_CHARACTERS) -> array:
    """The character ids of one word, shape `(C,)`, int16."""
    return array("h", _word_to_bytes(word, max_characters_per_token))


@lru_cache(maxsize=2**16)
def _word_to_bytes(word: str, max_characters_per_token: int) -> bytes:
    return words_to_characters([word], max_characters_per_token).tobytes()


def bytes_to_characters(
    text: np.ndarray, starts: np.ndarray, lengths: np.ndarray, max_characters_per_token: int
) -> np.ndarray:
    """
    The character ids of words in one array of UTF-8 bytes, shape `(N, C)`, int16, where C is
    `max_characters_per_token`.

    `text`: text in UTF-8, shape `(bytes,)`, uint8. `starts`, `lengths`: the first byte and the
    number of bytes of each word, shape `(N,)`.
    """
    kept = np.minimum(lengths, max_characters_per_token - 2)[:, None]  # (N, 1)
    position = np.arange(-1, max_characters_per_token - 1)[None, :]  # (1, C), 0 at the first byte
    rows = np.full((len(starts), max_characters_per_token), PADDING, dtype=np.int16)
    rows[:, 0] = BEGIN_WORD
    is_byte = (position >= 0) & (position < kept)  # (N, C)
    rows[is_byte] = text[(starts[:, None] + position)[is_byte]].astype(np.int16) + FIRST_BYTE
    rows[position == kept] = END_WORD
    return rows
