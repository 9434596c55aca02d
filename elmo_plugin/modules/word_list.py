"""Words that are found by the characters of a batch's tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.options import word_text
from elmo_plugin.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    END_SENTENCE,
    END_TOKEN,
    FIRST_BYTE,
    NUM_BYTES,
)


def word_bytes(words: Tensor, n_bytes: int) -> Tensor:
    """
    The first `n_bytes` bytes of words in UTF-8, shape `(U, n_bytes)`, int64, and -1 after the last.
    `words`: character ids, shape `(U, C)`. A sentence boundary is the word `<S>` or `</S>`.
    """
    found = words[:, 1 : n_bytes + 1].long() - FIRST_BYTE
    found = nn.functional.pad(found, (0, n_bytes - found.size(1)), value=-1)
    for character, token in ((BEGIN_SENTENCE, BEGIN_TOKEN), (END_SENTENCE, END_TOKEN)):
        boundary = np.full(n_bytes, -1)
        boundary[: len(token)] = list(token.encode()[:n_bytes])
        is_boundary = (words[:, 1] == character)[:, None]
        found = torch.where(is_boundary, torch.from_numpy(boundary).to(found), found)
    return found.masked_fill((found < 0) | (found >= NUM_BYTES), -1)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of words, by their bytes, as a setting that `frozen_state` can compare."""

    of_words: dict[bytes, int] = field(repr=False)


class WordList(nn.Module):
    """
    A list of words, which are found by their bytes. The state dictionary contains the words, as one
    text.

    # Parameters

    n_words : `int`
        V, the number of words. Of equal words, the last counts.
    n_bytes : `int`
        Size of all words in UTF-8, each followed by a line feed.
    unknown : `str`
        The word of the list that stands for every word that is not in it.
    """

    text: Tensor

    def __init__(self, *, n_words: int, n_bytes: int, unknown: str) -> None:
        super().__init__()
        self.n_words = n_words
        self.unknown = unknown
        self.longest = 0  # in bytes
        self.numbers = Numbers({})
        self.register_buffer("text", torch.zeros(n_bytes, dtype=torch.uint8))
        self.register_load_state_dict_post_hook(_index)

    def fill(self, words: Sequence[str]) -> None:
        """Set the words, whose number and size are those of the constructor."""
        text = np.frombuffer(word_text(words), dtype=np.uint8).copy()
        self.text = torch.from_numpy(text).to(self.text.device)
        self.index()

    def words(self) -> list[str]:
        """The words in the order of their numbers."""
        return self.text.cpu().numpy().tobytes().decode().split("\n")[:-1]

    def check(self) -> None:
        """Compute how words are found, if it has not been done. Raises an `InputError` as `index`,
        and if the text is not UTF-8."""
        if not self.numbers.of_words:
            self.index()
        try:
            self.words()
        except UnicodeDecodeError as error:
            raise InputError(f"expected UTF-8, found {error}") from None

    def index(self) -> None:
        """
        Compute how words are found, after the text has changed. Raises an `InputError` if it does
        not consist of `n_words` words, or the word for unknown ones is missing.
        """
        if self.text.is_meta:
            return
        *words, rest = self.text.cpu().numpy().tobytes().split(b"\n")
        if not self.n_words or len(words) != self.n_words or rest:
            raise InputError(f"expected the text of {self.n_words} words, found {len(words)}")
        numbers = {word: number for number, word in enumerate(words)}
        if self.unknown.encode() not in numbers:
            raise InputError(f"expected the word {self.unknown} in the list, found none")
        self.longest = max(map(len, words))
        self.numbers = Numbers(numbers)

    def forward(self, spelled: Tensor) -> Tensor:
        """The number of each word, shape `(U,)`, int64; `spelled`: their `word_bytes`."""
        numbers = self.numbers.of_words
        unknown = numbers[self.unknown.encode()]
        rows = spelled.to("cpu", torch.uint8).numpy()  # -1 becomes 255, a byte that UTF-8 lacks
        found = [numbers.get(row.tobytes().rstrip(b"\xff"), unknown) for row in rows]
        return torch.tensor(found, dtype=torch.long, device=spelled.device)


def _index(words: WordList, _: object) -> None:
    """Hook of `load_state_dict`. Zeros are no words yet."""
    if words.text.is_meta or words.text.any():
        words.index()
