"""
Splits raw English text into the tokens of the text that `small` was trained on.

NLTK's `NLTKWordTokenizer` does the work, because the tokens are those of the Penn Treebank, except
that straight quotes stay as they are, and that *cannot*, *gonna* and *AT&T* are one token.
"""

import re
from functools import cache
from typing import Any, NamedTuple

from elmo_plugin.checks import needed

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
    spans: list[tuple[int, int]] = []
    words: list[int] = []
    for start, end in _tokenizer().span_tokenize(text):
        is_same_word = bool(spans) and start == spans[-1][1]
        if is_same_word and _joins(text[start - 1 : start + 1]):
            spans[-1] = spans[-1][0], end
        else:
            words.append(words[-1] + (not is_same_word) if words else 0)
            spans.append((start, end))
    tokens = [text[start:end] for start, end in spans]
    return RawSentence(['"' if x in ("``", "''") else x for x in tokens], spans, words)


def _joins(around: str) -> bool:
    """Whether the characters before and after a token's start join it to the last, as in `R&B`."""
    return "&" in around and around.replace("&", "a").isalnum()


@cache
def _tokenizer() -> Any:
    tokenizer = needed("nltk.tokenize", "raw: ").NLTKWordTokenizer()
    tokenizer.CONTRACTIONS2 = []  # can not, gon na
    tokenizer.PUNCTUATION = [*tokenizer.PUNCTUATION, (SYMBOLS, r" \g<0> ")]
    return tokenizer
