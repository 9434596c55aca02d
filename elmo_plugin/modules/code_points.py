import sys

import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.modules.word_list import word_bytes
from elmo_plugin.text.characters import MOST_BYTES_OF_CODE_POINT

MARKS = ("begin_word", "end_word", "begin_sentence", "end_sentence", "unknown", "padding")
BOUNDARIES = ("<bos>", "<eos>")
"""Tokens that are sentence boundaries, each of which has a character of its own."""


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
        found = word_bytes(words, self.most_bytes)
        number = _is_lead(found).cumsum(dim=1)  # of each byte's code point, from 1
        return found.masked_fill(number > self.max_characters_per_token - 2, -1)

    def forward(self, spelled: Tensor) -> Tensor:
        """
        Ids of shape `(U, K)`, from 1 to N: one more than the entry, because id 0 of a character CNN
        means "no word here". `spelled`: see the method.
        """
        begin, end, begin_sentence, end_sentence, unknown, padding = self.marks.unbind()
        # Lead bytes have one to four leading ones: 0xxxxxxx, 110xxxxx, 1110xxxx, 11110xxx.
        tail = nn.functional.pad(spelled, (0, MOST_BYTES_OF_CODE_POINT - 1), value=0)
        ahead = [tail[:, k : k + spelled.size(1)] & 0x3F for k in range(1, 4)]
        two = (spelled & 0x1F) << 6 | ahead[0]
        three = (spelled & 0x0F) << 12 | ahead[0] << 6 | ahead[1]
        four = (spelled & 0x07) << 18 | ahead[0] << 12 | ahead[1] << 6 | ahead[2]
        code = torch.where(spelled < 0xE0, two, torch.where(spelled < 0xF0, three, four))
        code = torch.where(spelled < 0x80, spelled, code)
        entries, order = self.code_points.sort(stable=True)
        found = torch.searchsorted(entries, code, right=True).sub(1).clamp(min=0)
        ids = torch.where(entries[found] == code, order[found], unknown)

        n_words, size = spelled.size(0), self.max_characters_per_token
        is_lead = _is_lead(spelled)
        place = torch.where(is_lead, is_lead.cumsum(dim=1), size)  # after the begin mark
        rows = padding.expand(n_words, size + 1).scatter(1, place, ids)  # the last is cut off
        rows[:, 0] = begin
        lengths = is_lead.sum(dim=1, keepdim=True)
        rows = rows.scatter(1, lengths + 1, end.expand(n_words, 1))
        for token, character in zip(BOUNDARIES, (begin_sentence, end_sentence)):
            boundary = rows.new_tensor(list(token.encode()))
            is_boundary = (spelled[:, : len(token)] == boundary).all(dim=1)
            is_boundary &= spelled[:, len(token)] < 0
            row = padding.expand(size + 1).clone()
            row[:3] = torch.stack([begin, character, end])
            rows = torch.where(is_boundary[:, None], row, rows)
        return rows[:, :-1] + 1


def _is_lead(spelled: Tensor) -> Tensor:
    """Whether each byte is the first one of a code point."""
    return (spelled >= 0) & (spelled & 0xC0 != 0x80)
