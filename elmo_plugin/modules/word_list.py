"""Words that are found by the characters of a batch's tokens."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.ops.unique_words import hash_weights
from elmo_plugin.options import word_text
from elmo_plugin.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    END_SENTENCE,
    END_TOKEN,
    FIRST_BYTE,
    NUM_BYTES,
)

LINE_FEED = ord("\n")

BLOCK_BYTES = 1 << 22
"""Bytes of words that are compared at a time, each as a number of 64 bits."""


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


class WordList(nn.Module):
    """
    A list of words, which are found by their bytes: a hash of them selects a word, and then all
    bytes are compared. The state dictionary contains the words, as one text.

    # Parameters

    n_words : `int`
        V, the number of words. Of equal words, the last counts.
    n_bytes : `int`
        Size of all words in UTF-8, each followed by a line feed.
    unknown : `str`
        The word of the list that stands for every word that is not in it.
    """

    text: Tensor
    starts: Tensor
    keys: Tensor
    numbers: Tensor
    hash_weights: Tensor

    def __init__(self, *, n_words: int, n_bytes: int, unknown: str) -> None:
        super().__init__()
        self.n_words = n_words
        self.unknown = unknown
        self.unknown_number = 0
        self.longest = 0  # in bytes
        self.register_buffer("text", torch.zeros(n_bytes, dtype=torch.uint8))
        # Where each word starts in the text; the sorted keys, and the number of each one's word.
        for name in ("starts", "keys", "numbers", "hash_weights"):
            empty = torch.zeros(0, dtype=torch.long)
            self.register_buffer(name, empty, persistent=False)
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
        if len(self.starts) != self.n_words + 1:
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
        ends = (self.text == LINE_FEED).nonzero()[:, 0]
        if not self.n_words or len(ends) != self.n_words or self.text[-1] != LINE_FEED:
            raise InputError(f"expected the text of {self.n_words} words, found {len(ends)}")
        self.starts = torch.cat([ends.new_zeros(1), ends + 1])
        self.longest = int(self.starts.diff().max()) - 1
        attempt = 0
        while not self._is_indexed(attempt):
            attempt += 1
        lines = b"\n" + self.text.cpu().numpy().tobytes()
        place = lines.rfind(f"\n{self.unknown}\n".encode())
        if place < 0:
            raise InputError(f"expected the word {self.unknown} in the list, found none")
        self.unknown_number = lines.count(b"\n", 0, place)

    def _is_indexed(self, attempt: int) -> bool:
        """Compute the keys, and whether no two different words have the same one."""
        n_bytes, device = self.longest + 1, self.text.device
        self.hash_weights = hash_weights(n_bytes + attempt)[:n_bytes].to(device)
        n_rows = max(1, BLOCK_BYTES // n_bytes)
        blocks = torch.arange(self.n_words, device=device).split(n_rows)
        keys = torch.cat([self._keys(self._bytes(block)) for block in blocks])
        self.keys, self.numbers = keys.sort(stable=True)  # of equal words, the last comes last
        same = (self.keys[1:] == self.keys[:-1]).nonzero()[:, 0]
        return all(
            torch.equal(self._bytes(self.numbers[place]), self._bytes(self.numbers[place + 1]))
            for place in same.split(n_rows)
        )

    def forward(self, spelled: Tensor) -> Tensor:
        """The number of each word, shape `(U,)`, int64; `spelled`: their `word_bytes`."""
        missing = self.longest + 1 - spelled.size(1)  # a longer word is unknown
        spelled = nn.functional.pad(spelled, (0, missing), value=-1)  # cuts if it is negative
        place = torch.searchsorted(self.keys, self._keys(spelled), right=True) - 1
        numbers = self.numbers[place.clamp(min=0)]
        is_known = (self._bytes(numbers) == spelled).all(dim=1)
        return torch.where(is_known, numbers, self.unknown_number)

    def _bytes(self, numbers: Tensor) -> Tensor:
        """The bytes of the words with these numbers, shape `(U, longest + 1)`, int64."""
        place = torch.arange(self.longest + 1, device=numbers.device)
        place = self.starts[numbers][:, None] + place
        is_own = place < self.starts[numbers + 1][:, None] - 1  # without the line feed
        found = self.text[place.clamp(max=len(self.text) - 1)].long()
        return torch.where(is_own, found, -1)

    def _keys(self, spelled: Tensor) -> Tensor:
        return ((spelled + 1) * self.hash_weights).sum(dim=1)


def _index(words: WordList, _: object) -> None:
    """Hook of `load_state_dict`. Zeros are no words yet."""
    if words.text.is_meta or words.text.any():
        words.index()
