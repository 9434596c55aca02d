"""
Splits raw English text into sentences, and these into the tokens of the text that `small` was
trained on.

nupunkt finds the sentences, and NLTK's `NLTKWordTokenizer` the tokens, because they are those of
the Penn Treebank, except that straight quotes stay as they are, and that *cannot*, *gonna* and
*AT&T* are one token.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from elmo_plugin.checks import needed
from elmo_plugin.text.advice import SYMBOL, current, ends_sentence
from elmo_plugin.text.advice_kinds import N_EXAMPLES
from elmo_plugin.text.sentence import Sentence, places_of_row, tokens_of_row

STRAIGHT = str.maketrans("“”‘’", "\"\"''")
"""Quotes and apostrophes as in nearly all of the text. Each is one character, as before."""


SYMBOLS = re.compile("[‒–—―…•·§†«»™®×±→€¥¢]")
"""
Characters that are tokens of their own in the text. NLTK leaves them in their words, the dashes
only before 3.9.3.
"""

OPENING_QUOTE = re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)")
"""A single quote before a word, as in NLTK since 3.10.1; before, it stayed with the word."""

FINAL_PERIOD = re.compile(r"""(?<=[^.])\.(?=[\s"'`»)\]}>]*$)""")
"""
A sentence's last period. NLTK, which has written a quotation mark after a space as opening quotes,
``, by then, does not split off one before them.
"""

ENGLISH = "the of and to that it with as not be by from when but this have are were has who".split()
"""Words that are among the 100 most frequent ones of any English text."""

FIRST_WORDS = 500
"""
The number of most frequent words of a text that have at least half of `ENGLISH` if it is English.
Those of 41 other languages, even from the web, have at most 8 of the 20. Fewer are no evidence.
"""

PACKAGES = "nltk nupunkt"
"""The packages that split raw text."""

RUNNING = "running text"
"""The kind of raw text that is hard-wrapped, instead of `True` for a row in each line."""

BLANK_LINE = re.compile(r"\n[^\S\n]*\n")

LONG_PARAGRAPH = 10_000
"""Number of lines after which a paragraph is divided at the next line that ends like a sentence."""


class SplitText(NamedTuple):
    """
    The tokens of raw text. `spans`: the first character of each token and the one after its last.
    `words`: the number of the word that it is part of, and `sentence` that of its sentence. Words
    are what whitespace separates, and numbers are counted from 0.
    """

    tokens: list[str]
    spans: list[tuple[int, int]]
    words: list[int]
    sentence: list[int]


def split_sentences(text: str) -> list[tuple[int, int]]:
    """
    Split English text into sentences, which also end at a blank line. Returns for each its first
    character and the one after its last; whitespace around it is left out. Raises an `InputError`
    if nupunkt is not installed.
    """
    text = text.translate(STRAIGHT)
    spans = []
    first = 0
    for last in (*(match.end() for match in BLANK_LINE.finditer(text)), len(text)):
        ends = list(_sentence_ends(text[first:last]))
        for start, end in zip([0, *ends], ends):
            sentence = text[first + start : first + end]
            if stripped := sentence.strip():
                start += first + len(sentence) - len(sentence.lstrip())
                spans.append((start, start + len(stripped)))
        first = last
    return spans


def _sentence_ends(text: str) -> Iterator[int]:
    """
    nupunkt's ends of the sentences of a paragraph. It adds a quotation mark between spaces to the
    sentence before it; here, one that opens a quotation begins the next sentence.
    """
    is_open = False
    text = text.replace("@.@", "@,@")  # a symbol of WikiText for a point in a number
    for start, end in needed("nupunkt", "raw: ", PACKAGES).sent_spans(text):
        sentence = text[start:end].rstrip()
        is_open ^= sentence.count('"') % 2 == 1
        opens_next = is_open and end < len(text) and re.search(r'\s"$', sentence)
        yield start + len(sentence) - 1 if opens_next else end


def split_tokens(text: str, sentences: list[tuple[int, int]] | None = None) -> SplitText:
    """
    Split text into tokens: *isn't* into *is* and *n't*. A period is split off only at the end of a
    sentence, and a symbol of other programs such as *<unk>* is one token. `sentences`: their places
    in the text, by default those of `split_sentences`. Raises an `InputError` if nupunkt or NLTK is
    not installed.
    """
    row = split_text(text, sentences)
    return SplitText(tokens_of_row(row), **places_of_row(row))


def split_text(
    text: str, sentences: list[tuple[int, int]] | None = None, **place: Any
) -> list[Sentence]:
    """
    The sentences of raw text; one without tokens if there are none. `place`: other fields of
    theirs. `sentences` and errors: see `split_tokens`.
    """
    text = text.translate(STRAIGHT)
    found = []
    word, before = -1, -1  # the number of the last word, and the place after it
    in_symbols = {k for x in SYMBOL.finditer(text) for k in range(x.start() + 1, x.end())}
    for number, (first, last) in enumerate(sentences or split_sentences(text)):
        spans: list[tuple[int, int]] = []
        words: list[int] = []
        for start, end in _tokenizer().span_tokenize(text[first:last]):
            start, end = first + start, first + end
            is_same_word = start == before
            joins = start in in_symbols or _joins(text[start - 1 : start + 1])
            if is_same_word and spans and joins:
                spans[-1] = spans[-1][0], end
            else:
                word += not is_same_word
                spans.append((start, end))
                words.append(word)
            before = end
        written = (text[start:end] for start, end in spans)
        tokens = ['"' if x in ("``", "''") else x for x in written]
        found.append(Sentence(tokens, in_row=number, spans=spans, words=words, **place))
    return found or [Sentence([], spans=[], words=[], **place)]


def _joins(around: str) -> bool:
    """Whether the characters before and after a token's start join it to the last, as in `R&B`."""
    return "&" in around and around.replace("&", "a").isalnum()


@cache
def _tokenizer() -> Any:
    tokenizer = needed("nltk.tokenize", "raw: ", PACKAGES).NLTKWordTokenizer()
    tokenizer.CONTRACTIONS2 = []  # can not, gon na
    tokenizer.STARTING_QUOTES = [*tokenizer.STARTING_QUOTES[:-1], (OPENING_QUOTE, "' ")]
    first, last = ((x, r" \g<0> ") for x in (SYMBOLS, FINAL_PERIOD))
    # NLTK before 3.9 splits *n't* off only before a space, and not before a tab.
    tokenizer.PUNCTUATION = [first, *tokenizer.PUNCTUATION, last, (re.compile(r"\s"), " ")]
    return tokenizer


def raw_facts(raw: bool | str) -> dict[str, Any]:
    """
    Whether text is raw and, if it is, the versions of the packages that split it, which may give
    other sentences and tokens. Raises an `InputError` if one of them is not installed.
    """
    if not raw:
        return {"raw": raw}
    versions = (f"{x} {needed(x, 'raw: ', PACKAGES).__version__}" for x in PACKAGES.split())
    return {"raw": raw, "splitters": ", ".join(versions)}


def running_text(text: str | Iterable[str]) -> Iterator[Sentence]:
    """
    The sentences of hard-wrapped English text, whose lines end anywhere, as in a book of Project
    Gutenberg. Blank lines end paragraphs, and a sentence does not go beyond its paragraph. The text
    is read by paragraphs, and one of more than 10,000 lines up to a line that ends like a sentence.

    # Parameters

    text : `str | Iterable[str]`
        The text, or its lines, such as an open file.

    # Returns

    `Iterator[Sentence]`
        Each sentence with its tokens, its number `row`, the number of the line in which it begins,
        and the `spans` of its tokens in the whole text. `Elmo.stream`, `Elmo.uses` and
        `LanguageModel.score` take them as they are.

    # Raises

    `InputError`
        If nupunkt or NLTK is not installed.
    """
    return running_sentences(text.split("\n") if isinstance(text, str) else text)


def running_sentences(
    lines: Iterable[str], first: int = 0, step: int = 1, file: str = ""
) -> Iterator[Sentence]:
    """Every `step`-th sentence of the lines of a running text, from sentence `first` on."""
    for number, (sentence, line, start) in islice(enumerate(_running(lines)), first, None, step):
        [found] = split_text(sentence, [(0, len(sentence))], row=number, line=line, file=file)
        spans = [(start + begin, start + end) for begin, end in found.spans or ()]
        yield replace(found, spans=spans)


def _running(lines: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """
    Each sentence of a running text with spaces instead of line breaks, and its first line and
    character.
    """
    n_lines = n_characters = 0
    for paragraph in _paragraphs(lines):
        joined = "\n".join(paragraph)
        before, line = 0, n_lines
        for start, end in split_sentences(joined):
            line += joined.count("\n", before, start)
            before = start
            yield joined[start:end].replace("\n", " "), line, n_characters + start
        n_lines += len(paragraph)
        n_characters += len(joined) + 1


def _paragraphs(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines without their breaks, in paragraphs, to which the blank line before them belongs."""
    paragraph: list[str] = []
    for line in lines:
        is_long = len(paragraph) >= LONG_PARAGRAPH and ends_sentence(paragraph[-1])
        if paragraph and (is_long or not line.strip()):
            yield paragraph
            paragraph = []
        paragraph.append(line.removesuffix("\n"))
    if paragraph:
        yield paragraph


def check_language(first_words: Sequence[str]) -> None:
    """
    Advise if the words of a model for which raw text was split are not English. `first_words`: the
    `FIRST_WORDS` most frequent ones, or fewer if they are not known.
    """
    n_english = len({*ENGLISH}.intersection(first_words))
    if len(first_words) == FIRST_WORDS and 2 * n_english < len(ENGLISH):
        facts = {"n_first": FIRST_WORDS, "n_english": n_english, "n_all": len(ENGLISH)}
        current().find("other language", 1, 1, ENGLISH[:N_EXAMPLES], **facts)


def check_wrapped(lines: Iterable[str]) -> Iterator[str]:
    """The lines of raw text. The advice of the call says so if many begin within a sentence."""
    counts, is_open = [0, 0, 0, 0], False
    for line in lines:
        counts[2 * is_open + line.lstrip()[:1].islower()] += 1
        is_open = bool(line.strip()) and not ends_sentence(line)
        yield line
    current().of_lines(counts, "--running-text of the command or ")
