"""Words of a table and code points of a lexicon, which are found by the bytes of a token."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.ops.linear import on_device
from elmo_plugin.options import word_text
from elmo_plugin.text.characters import MOST_BYTES_OF_CODE_POINT, word_bytes
from elmo_plugin.torch_modules import name_hook

MARKS = ("begin_word", "end_word", "begin_sentence", "end_sentence", "unknown", "padding")
BOUNDARIES = ("<bos>", "<eos>")
"""Tokens that are sentence boundaries, each of which has a character of its own."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of words, by their bytes, as a setting that `State` can compare."""

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
        name_hook(self.register_load_state_dict_post_hook(_index))

    def fill(self, words: Sequence[str]) -> None:
        """Set the words, whose number and size are those of the constructor."""
        text = np.frombuffer(word_text(words), dtype=np.uint8).copy()
        self.text = torch.from_numpy(text).to(self.text.device)
        self.index()

    def words(self) -> list[str]:
        """The words in the order of their numbers."""
        return self.text.cpu().numpy().tobytes().decode().split("\n")[:-1]

    def first(self, most: int) -> list[str]:
        """The first of the words, at most so many."""
        return [word.decode() for word in islice(self.numbers.of_words, most)]

    def __contains__(self, word: str) -> bool:
        return word.encode("utf-8", "ignore") in self.numbers.of_words

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
        of_words = [numbers.get(row.tobytes().rstrip(b"\xff"), unknown) for row in rows]
        return torch.tensor(of_words, dtype=torch.long, device=spelled.device)


def _index(words: WordList, _: object) -> None:
    """Hook of `load_state_dict`. Zeros are no words yet."""
    if words.text.is_meta or words.text.any():
        words.index()


class CodePoints(nn.Module):
    """
    Converts words to the ids of their code points in a lexicon, for character CNNs that do not read
    bytes. A word is its code points between two marks, padded; longer words are cut.

    # Parameters

    n_code_points : `int`
        N, the number of entries of the lexicon, including the marks.
    max_characters_per_token : `int`
        K, the number of ids of a word.
    """

    code_points: Tensor
    marks: Tensor

    def __init__(self, *, n_code_points: int, max_characters_per_token: int) -> None:
        super().__init__()
        self.max_characters_per_token = max_characters_per_token
        # The code point of each entry, or -1, and the entries of `MARKS`.
        self.register_buffer("code_points", torch.full((n_code_points,), -1))
        self.register_buffer("marks", torch.zeros(len(MARKS), dtype=torch.long))

    def check(self) -> None:
        """Raise an `InputError` if an entry is no code point, or is there twice, or a mark is none
        of the entries."""
        n_entries = len(self.code_points)
        if not ((self.marks >= 0) & (self.marks < n_entries)).all():
            raise InputError(f"expected marks below {n_entries}, found {self.marks.tolist()}")
        entries = self.code_points[self.code_points != -1]
        is_unicode = ((entries >= 0) & (entries <= sys.maxunicode)).all()
        if not is_unicode or len(entries.unique()) < len(entries):
            raise InputError("expected distinct code points of Unicode, found others")

    @property
    def most_bytes(self) -> int:
        """The size of the longest word that is not cut, in bytes of UTF-8."""
        return MOST_BYTES_OF_CODE_POINT * (self.max_characters_per_token - 2)

    def spelled(self, words: Tensor) -> Tensor:
        """
        The bytes of words without the code points that are cut, shape `(U, most_bytes)`, and -1
        after the last. `words`: character ids of bytes, shape `(U, C)`.
        """
        spelled = word_bytes(words, self.most_bytes)
        number = _is_lead(spelled).cumsum(dim=1)  # of each byte's code point, from 1
        return spelled.masked_fill(number > self.max_characters_per_token - 2, -1)

    def forward(self, spelled: Tensor) -> Tensor:
        """
        Ids of shape `(U, K)`, from 1 to N: one more than the entry, because id 0 of a character CNN
        means "no word here". `spelled`: see the method.
        """
        spelled = on_device(spelled, self.code_points.device)
        begin, end, begin_sentence, end_sentence, unknown, padding = self.marks.unbind()
        n_words, size = spelled.size(0), self.max_characters_per_token
        is_lead = _is_lead(spelled)
        number = is_lead.cumsum(dim=1)  # of each byte's code point, from 1
        place = torch.where(is_lead, number, size)  # the last column is cut off
        rows = padding.expand(n_words, size + 1)
        rows = rows.scatter(1, place, self._entries(_code_points(spelled), unknown))
        rows[:, 0] = begin
        rows = rows.scatter(1, number[:, -1:] + 1, end.expand(n_words, 1))
        for token, character in zip(BOUNDARIES, (begin_sentence, end_sentence)):
            boundary = padding.expand(size + 1).clone()
            boundary[:3] = torch.stack([begin, character, end])
            rows = torch.where(_is_word(spelled, token)[:, None], boundary, rows)
        return rows[:, :-1] + 1

    def _entries(self, code_points: Tensor, unknown: Tensor) -> Tensor:
        """The entry of each code point, or `unknown`. Shape of both: `(U, n)`."""
        in_order, order = self.code_points.sort(stable=True)
        place = torch.searchsorted(in_order, code_points, right=True).sub(1).clamp(min=0)
        return torch.where(in_order[place] == code_points, order[place], unknown)


def _code_points(spelled: Tensor) -> Tensor:
    """The code point that begins at each byte; other numbers where none does. `(U, n)`."""
    # First bytes have one to four leading ones: 0xxxxxxx, 110xxxxx, 1110xxxx, 11110xxx.
    later = nn.functional.pad(spelled, (0, MOST_BYTES_OF_CODE_POINT - 1), value=0) & 0x3F
    second, third, fourth = (later[:, k : k + spelled.size(1)] for k in range(1, 4))
    two = (spelled & 0x1F) << 6 | second
    three = (spelled & 0x0F) << 12 | second << 6 | third
    four = (spelled & 0x07) << 18 | second << 12 | third << 6 | fourth
    longer = torch.where(spelled < 0xE0, two, torch.where(spelled < 0xF0, three, four))
    return torch.where(spelled < 0x80, spelled, longer)


def _is_lead(spelled: Tensor) -> Tensor:
    """Whether each byte is the first one of a code point."""
    return (spelled >= 0) & (spelled & 0xC0 != 0x80)


def _is_word(spelled: Tensor, token: str) -> Tensor:
    """Whether each word is this one, shape `(U,)`."""
    expected = on_device(torch.tensor(list(token.encode()), device="cpu"), spelled.device)
    return (spelled[:, : len(token)] == expected).all(dim=1) & (spelled[:, len(token)] < 0)
