"""A list of words and their forms, as a user gives it: a list, a dictionary or a file."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo_plugin.checks import fail
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.advice import INVISIBLE, current
from elmo_plugin.text.characters import one_token
from elmo_plugin.text.forms import SPACE, is_table
from elmo_plugin.text.lines import read_lines

IN_PATHS = re.compile(r"[./\\:~]")
"""What a string may have that is meant as the path of a file of words, and not as a single word."""

CSV_NAME = re.compile(r"\.csv(\.(gz|xz|zst))?$", re.IGNORECASE)

FREQUENCY = re.compile(r"[+-]?\.?\d[\d.,]*([eE][+-]?\d+)?")
"""A column of a list of frequencies or scores, which is not a list of forms."""


def word_forms(words: Any) -> dict[str, str]:
    """The word of each form. See `Elmo.uses` for `words`, and for the errors."""
    words = _with_forms(words)
    word_of: dict[str, str] = {}
    for word, forms in words:
        for form in _checked_forms(word, forms):
            if word_of.setdefault(form, word) != word:
                fail("words", f"{form!r} as a form of one word", f"it at {word_of[form]}, {word}")
    if not word_of:
        fail("words", "at least one word", words)
    odd = list(filter(INVISIBLE.search, word_of))
    current().find("listed words", len(odd), len(word_of), map(repr, odd))
    return word_of


def _with_forms(words: Any) -> Collection[tuple[Any, Any]]:
    """Each word with its forms, as the items of a dictionary."""
    if isinstance(words, str) and not IN_PATHS.search(words) and not os.path.isfile(words):
        words = [words]
    if isinstance(words, str | os.PathLike):
        return list(_read(words))
    if isinstance(words, Mapping):
        return words.items()
    if not isinstance(words, Iterable) or is_table(words):
        fail("words", "a list of words, a dictionary of their forms or a file", words)
    return [(word, [word]) for word in words]


def _read(path: str | os.PathLike) -> Iterator[tuple[str, str | list[str]]]:
    """
    Each word of a file with its forms. Spaces separate the forms of one token, which are one
    string, and tabs those that may have several; a single one of these ends in a tab. Spaces beside
    tabs have no meaning.
    """
    file = Path(local_path(path, "a file of words"))
    if CSV_NAME.search(str(path)):
        fail(str(path), "a text, with a word in each line and tabs before its forms", "a CSV table")
    for number, line in enumerate(read_lines(file, str(path), is_text=False), 1):
        word, *forms = map(str.strip, line.lstrip().split("\t"))
        for form in filter(FREQUENCY.fullmatch, forms):
            fail(f"{path}, line {number}", f"forms of {word} after the tab, no numbers", form)
        if word:
            yield word, forms[0] if len(forms) == 1 else [*filter(None, forms)] or [word]


def _checked_forms(word: Any, forms: Any) -> Iterator[str]:
    """
    The forms of a word, which are a list or a string with spaces between them, as a text has them.
    Raises an `InputError` that names the word.
    """
    if isinstance(forms, str) and not (" " in str(word) and str(word) in forms):
        forms = forms.split()
    if isinstance(forms, str) or not isinstance(forms, Iterable):
        fail(f"words: {word}", "a list of its forms, or tabs between them in a file", forms)
    for form in forms:
        tokens = form.split(" ") if isinstance(form, str) else [""]
        if not all(tokens) or SPACE.search("".join(tokens)):
            fail(f"words: {word}", "forms with single spaces between their tokens", form)
        yield " ".join(map(one_token, tokens))


def hint_at_tabs(words: Iterable[str]) -> str:
    """The end of a message about words without uses, if one of them has a space."""
    phrases = [word for word in words if " " in str(word)]
    return f"; {phrases[0]!r} is one phrase, as only tabs divide forms from it" if phrases else ""
