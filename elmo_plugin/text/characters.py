"""
The character ids of words in ELMo's models.

A word is its UTF-8 bytes between a begin-of-word and an end-of-word mark, padded to a fixed length.
A sentence boundary is one token with its own character. The ids are AllenNLP's, which are bilm-tf's
plus one, so that 0 can mean "no token here". These numbers appear only in this file.
"""

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, check_count

NO_TOKEN = 0
"""Id of every character at a position without a token (the padding of a batch)."""
FIRST_BYTE = 1
"""Id of byte 0x00; byte b has the id `FIRST_BYTE + b`."""
NUM_BYTES = 256
MOST_BYTES_OF_CODE_POINT = 4
"""A code point takes one to four bytes in UTF-8."""
FIRST_PRINTED, FIRST_OF_SEVERAL = 0x20, 0x80
"""Of the code points that take one byte in UTF-8, the first that is not a control character; and
the first byte that is part of a longer one."""
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


def one_token(text: str) -> str:
    """
    A token as a biLM reads it and files have it: whitespace inside it, as `str.split` finds it, is
    an underscore, whitespace around it is left out, and an empty token is an underscore. A text is
    split at whitespace, so no ELMo was trained on a word with a space.
    """
    return "_".join(text.split()) or "_"


def check_max_characters(name: str, max_characters_per_token: Any) -> int:
    """Return the length if it has room for a word's two marks and one byte."""
    return check_count(name, max_characters_per_token, least=3, most=MOST_CHARACTERS)


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


class WordLimit(NamedTuple):
    """
    The longest word that a token encoder does not cut: a number of bytes in UTF-8, or of code
    points. A lone surrogate is neither.
    """

    most: int
    in_bytes: bool = True

    def __str__(self) -> str:
        return f"{self.most} {'bytes in UTF-8' if self.in_bytes else 'code points'}"

    def may_reach(self, word: str) -> bool:
        """Whether a word may be as long as the limit. Quickly false for most words."""
        return MOST_BYTES_OF_CODE_POINT * len(word) >= self.most

    def spelled(self, word: str) -> bytes | str:
        """The bytes or code points of a word."""
        spelled = word.encode("utf-8", "ignore")
        return spelled if self.in_bytes else spelled.decode()


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


def sentence_characters(sentences: Sequence[Sequence[str]], n_characters: int) -> Tensor:
    """The character ids of sentences, shape `(B, T, C)`, int64, zeros at padding."""
    lengths = list(map(len, sentences))
    shape = len(sentences), max(lengths, default=0), n_characters
    tokens = torch.zeros(shape, dtype=torch.long, device="cpu")
    for row, sentence in zip(tokens, sentences):
        row[: len(sentence)] = torch.from_numpy(words_to_characters(sentence, n_characters))
    return tokens


def boundary_characters(
    n_characters: int, tokens: Sequence[str] = (BEGIN_TOKEN, END_TOKEN)
) -> Tensor:
    """The character ids of the tokens that begin and end a sentence, shape `(2, C)`, int64."""
    return torch.from_numpy(words_to_characters(tokens, n_characters)).long()


def resize_characters(tokens: Tensor, n_characters: int) -> Tensor:
    """
    The character ids of tokens, shape `(..., C)`, cut or padded to `n_characters`, as if they had
    been made for this number. Raises an `InputError` if there are fewer and a token fills them, in
    which case it may have been cut.
    """
    size = tokens.size(-1)
    if size > n_characters:
        tokens = tokens[..., :n_characters].clone()
        last = tokens[..., -1]
        is_cut = (last != PADDING) & (last != NO_TOKEN)
        tokens[..., -1] = last.masked_fill(is_cut, END_WORD)
    elif size < n_characters:
        if (tokens[..., -1] == END_WORD).any():
            raise InputError(
                f"expected words of up to {n_characters - 2} bytes in UTF-8, found one that fills "
                f"{size - 2}, so that it may have been cut to {size - 2}; set "
                f"max_characters_per_token of the token indexer to {n_characters} or more"
            )
        more = tokens.new_full((*tokens.shape[:-1], n_characters - size), PADDING)
        tokens = torch.cat([tokens, more * tokens[..., :1].bool()], dim=-1)
    return tokens


def check_is_text(tokens: Tensor) -> None:
    """
    Raise an `InputError` if a token, shape `(..., C)`, is one character that no text has, which
    only a character CNN over bytes can have learned: `tokens_to_add` of the token indexer adds
    such.
    """
    character = tokens[..., 1] - FIRST_BYTE
    is_single = (tokens[..., 0] == BEGIN_WORD) & (tokens[..., 2] == END_WORD)
    is_text = (character >= FIRST_PRINTED) & (character < FIRST_OF_SEVERAL)
    for boundary in (BEGIN_SENTENCE, END_SENTENCE):
        is_text |= tokens[..., 1] == boundary
    if (wrong := is_single & ~is_text).any():
        raise InputError(
            "expected tokens of text, since this biLM reads words or code points, found the single "
            f"character {int(character[wrong][0])}; remove tokens_to_add from the token indexer, "
            "or this control character from the text"
        )


def long_words(tokens: Tensor, limit: WordLimit) -> list[str]:
    """
    The words that may reach the limit, if character ids, shape `(..., C)`, have more of a word than
    it permits.
    """
    if tokens.size(-1) - 2 <= limit.most:
        return []
    last = tokens[..., limit.most]  # the last byte, if each code point is one
    rows = tokens[(last >= FIRST_BYTE) & (last < FIRST_BYTE + NUM_BYTES)]
    spelled = word_bytes(rows, tokens.size(-1) - 2).to("cpu", torch.uint8).numpy()
    return [row.tobytes().rstrip(b"\xff").decode("utf-8", "ignore") for row in spelled]


def word_bytes(words: Tensor, n_bytes: int) -> Tensor:
    """
    The first `n_bytes` bytes of words in UTF-8, shape `(U, n_bytes)`, int64, and -1 after the last.
    `words`: character ids, shape `(U, C)`. A sentence boundary is the word `<S>` or `</S>`.
    """
    spelled = words[:, 1 : n_bytes + 1].long() - FIRST_BYTE
    spelled = nn.functional.pad(spelled, (0, n_bytes - spelled.size(1)), value=-1)
    for character, token in ((BEGIN_SENTENCE, BEGIN_TOKEN), (END_SENTENCE, END_TOKEN)):
        boundary = np.full(n_bytes, -1)
        boundary[: len(token)] = list(token.encode()[:n_bytes])
        is_boundary = (words[:, 1] == character)[:, None]
        spelled = torch.where(is_boundary, torch.from_numpy(boundary).to(spelled), spelled)
    return spelled.masked_fill((spelled < 0) | (spelled >= NUM_BYTES), -1)
