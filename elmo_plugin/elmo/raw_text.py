"""
Splits raw English text into the tokens of the text that `small` was trained on.

NLTK's `NLTKWordTokenizer` does the work, because the tokens are those of the Penn Treebank, except
that straight quotes stay as they are, and that *cannot*, *gonna* and *AT&T* are one token.
"""

import re
from functools import cache
from typing import Any, NamedTuple

from elmo_plugin.checks import InputError

STRAIGHT = str.maketrans("“”‘’", "\"\"''")
"""Quotes and apostrophes as in nearly all of the text. Each is one character, as before."""


SYMBOLS = re.compile("[–…•·§†«»™®×±→€¥¢]")
"""Characters that are tokens of their own in the text, and that NLTK leaves in their words."""


class RawSentence(NamedTuple):
    """
    A sentence and its tokens. `spans`: the first character of each token and the one after its
    last. `words`: for each token the number of the word that it is part of; words are what white
    space separates, and counted from 0.
    """

    tokens: list[str]
    spans: list[tuple[int, int]]
    words: list[int]


def split_tokens(text: str) -> RawSentence:
    """
    Split a sentence into tokens: *isn't* into *is* and *n't*. A period is split off only at the
    end, so the text should be one sentence. Raises an `InputError` if NLTK is not installed.
    """
    text = text.translate(STRAIGHT)
    found = RawSentence([], [], [])
    place, word = 0, 0
    for token in _tokenizer().tokenize(text):
        if text[place].isspace():
            place = next(k for k in range(place, len(text)) if not text[k].isspace())
            word += bool(found.tokens)
        start, place = place, place + (1 if text[place] == '"' else len(token))
        if _continues(found, text, start):
            start = found.spans.pop()[0]
            found.tokens.pop()
            found.words.pop()
        found.tokens.append('"' if token in ("``", "''") else text[start:place])
        found.spans.append((start, place))
        found.words.append(word)
    return found


def _continues(found: RawSentence, text: str, start: int) -> bool:
    """Whether the token at `start` belongs to the one before it, as in `R&B`."""
    if not found.spans or found.spans[-1][1] != start:
        return False
    around = text[start - 1 : start + 1]
    return "&" in around and around.replace("&", "a").isalnum()


@cache
def _tokenizer() -> Any:
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ModuleNotFoundError:
        raise InputError(
            "raw: expected the package nltk, which splits raw text into tokens, found none; "
            "pip install nltk"
        ) from None
    tokenizer = NLTKWordTokenizer()
    tokenizer.CONTRACTIONS2 = []  # can not, gon na
    tokenizer.PUNCTUATION = [*tokenizer.PUNCTUATION, (SYMBOLS, r" \g<0> ")]
    return tokenizer
