"""bilm-tf's vocabulary file: the words of the softmax, one per line."""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from elmo_plugin.checks import SHOWN, InputError, shown
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.text.lines import read_blocks
from elmo_plugin.text.special_words import SPECIAL_WORDS


def read_vocabulary_file(file: str | os.PathLike) -> list[str]:
    """
    Read bilm-tf's vocabulary file: one word per line, beginning with `<S>`, `</S>` and `<UNK>`.
    Raises an `InputError` that names the line if it is empty, has several words or occurs twice, or
    if the first lines are not these.
    """
    blocks = read_blocks(Path(file), is_text=False)
    text = (line.strip() for lines in blocks for line in lines)
    first = tuple(islice(text, len(SPECIAL_WORDS)))
    if first != SPECIAL_WORDS:
        raise InputError(
            f"{file}: expected the first lines {', '.join(SPECIAL_WORDS)}, "
            f"found {', '.join(word[:SHOWN] for word in first) or 'nothing'}"
        )
    # Memory holds only distinct words, however large a compressed file becomes.
    seen = {word: line for line, word in enumerate(first, start=1)}
    for line, word in enumerate(text, start=len(first) + 1):
        if not word:
            raise InputError(f"{file}, line {line}: expected a word, found none")
        if _has_space(word):
            raise InputError(f"{file}, line {line}: expected one word, found {shown(word)}")
        if word in seen:
            raise InputError(
                f"{file}, line {line}: expected each word once, found {word!r} "
                f"that is on line {seen[word]} too"
            )
        seen[word] = line
    return list(seen)


def _has_space(word: str) -> bool:
    """Whether it is several words, such as a word and its count."""
    return " " in word or "\t" in word


def write_vocabulary_file(
    words: Iterable[str], file: str | os.PathLike, temporary: Path | None = None
) -> None:
    """
    Write bilm-tf's vocabulary file; see `atomic_write` for `temporary`. Raises an `InputError` if a
    word is empty, begins or ends with white space, contains a space, a tab or a line break, or
    cannot be encoded in UTF-8.
    """
    words = list(words)
    for index, word in enumerate(words):
        if not word or word != word.strip() or "\n" in word or "\r" in word or _has_space(word):
            raise InputError(
                f"{file}: expected words that each fit on one line, found {word!r} (id {index})"
            )
    try:
        text = "".join(f"{word}\n" for word in words).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{file}: expected words that UTF-8 can hold, found {error.object[error.start]!r}"
        ) from error
    with atomic_write(file, temporary) as written:
        written.write_bytes(text)
