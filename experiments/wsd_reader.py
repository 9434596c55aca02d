"""Reads the XML of the unified evaluation framework for WSD (Raganato et al. 2017)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from elmo_plugin.checks import InputError

DATA, KEYS = ".data.xml", ".gold.key.txt"
POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
"""POS tags by the number in a sense key."""

Word = tuple[str, str]
"""A lemma and its part of speech."""


class Target(NamedTuple):
    """
    A word or a phrase to disambiguate.

    lemma : `str`
        Lemma in lower case, with `_` between the words of a phrase.
    pos : `str`
        `NOUN`, `VERB`, `ADJ` or `ADV`.
    start : `int`
        Index of its first token.
    end : `int`
        Index after its last token.
    senses : `list[str]`
        Correct WordNet sense keys, at least one.
    """

    lemma: str
    pos: str
    start: int
    end: int
    senses: list[str]


Sentence = tuple[list[str], list[Target]]


def word_of(sense: str) -> Word:
    """The lemma and the part of speech of a sense key."""
    lemma, _, rest = sense.rpartition("%")
    return lemma, POS[rest[0]]


def read_documents(file: Path) -> Iterator[tuple[int, Sentence]]:
    """
    The sentences with a target, from a file `*.data.xml` and the file `*.gold.key.txt` next to it,
    and the numbers of their documents. Phrases, which are one word in the XML, are split at
    whitespace.

    # Raises

    `InputError`
        If the file is not in this format, or a target has no sense key.
    """
    if not file.name.endswith(DATA):
        raise InputError(f"{file}: expected a file *{DATA}, found another name")
    senses = _read_senses(file.with_name(file.name.removesuffix(DATA) + KEYS))
    try:
        document = 0
        for _, element in ElementTree.iterparse(file):
            document += element.tag == "text"  # its end
            if element.tag == "sentence":
                sentence = _read_sentence(element, senses, file)
                element.clear()  # so that memory does not grow with the file
                if sentence[1]:
                    yield document, sentence
    except ElementTree.ParseError as error:
        raise InputError(f"{file}: expected XML, found an error: {error}") from None


def _read_senses(file: Path) -> dict[str, list[str]]:
    senses = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        name, *keys = line.split()
        if not keys or not all(re.fullmatch(r".+%[1-5]:\d\d:\d\d:.*:.*", key) for key in keys):
            raise InputError(
                f"{file}, line {number}: expected a name and sense keys, found {line!r}"
            )
        senses[name] = keys
    return senses


def _read_sentence(
    sentence: ElementTree.Element, senses: dict[str, list[str]], file: Path
) -> Sentence:
    words: list[str] = []
    targets = []
    for element in sentence:
        start = len(words)
        words.extend((element.text or "").split())
        if element.tag == "instance":
            name, lemma, pos = (element.get(key, "") for key in ("id", "lemma", "pos"))
            if name not in senses or start == len(words):
                raise InputError(
                    f"{file}: instance {name!r}: expected a word, and its senses in *{KEYS}, "
                    "found none"
                )
            targets.append(Target(lemma.lower(), pos, start, len(words), senses[name]))
    return words, targets
