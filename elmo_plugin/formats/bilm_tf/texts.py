"""bilm-tf's texts: `options.json`, and the vocabulary, the words of the softmax, one per line."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import SHOWN, InputError, fail
from elmo_plugin.formats.json_and_text import read_json
from elmo_plugin.options import BLOCKS, BiLMOptions
from elmo_plugin.text.characters import SPECIAL_WORDS

OPTIONS = "options.json"

N_WORDS, TIED = "n_tokens_vocab", "share_embedding_softmax"
"""bilm-tf's keys of a model without `char_cnn`, which reads words from a table."""

WITHOUT_ROW = "!!!MAXTERMID"
"""A line of the vocabulary of the published models that is no word."""


def read_options(path: str | os.PathLike) -> BiLMOptions:
    """
    Read an options file for training (`n_characters` 261) or for inference (262). Keys that only
    training needs are ignored. Raises an `InputError` that names the file and the key if the file
    or one of its values is invalid.
    """
    return options_from_dict(read_json(path, "an options file"), source=str(path))


def options_from_dict(options: Mapping[str, Any], *, source: str) -> BiLMOptions:
    """Read the contents of an options file; `source` is its name in error messages."""
    bidirectional = options.get("bidirectional", True)
    if bidirectional is not True:
        raise InputError(f"{source}: bidirectional: expected true, found {bidirectional!r}")
    known = {key: _known_keys(options.get(key), block) for key, block in BLOCKS.items()}
    if known["char_cnn"] is None and known["words"] is None and N_WORDS in options:
        size = known["lstm"].get("projection_dim") if isinstance(known["lstm"], Mapping) else None
        known["words"] = {"dim": size, "tied": options.get(TIED) or False}
    return BiLMOptions.from_dict(known, source=source)


def write_options(options: BiLMOptions, path: str | os.PathLike) -> None:
    """Write an options file for inference."""
    blocks: dict[str, Any] = options.to_dict()
    if options.char_cnn is None and options.words is not None:
        blocks.update({N_WORDS: options.words.n_words, TIED: options.words.tied})
    Path(path).write_text(json.dumps(blocks, indent=2) + "\n")


def _known_keys(block: Any, options: type) -> Any:
    if not isinstance(block, Mapping):
        return block
    keys = signature(options).parameters
    return {key: value for key, value in block.items() if key in keys}


class SoftmaxRows(NamedTuple):
    """
    The words of a softmax, first `<S>`, `</S>` and `<UNK>`, and the parts of them that, one after
    another, are the words of the rows in the file.
    """

    words: list[str]
    runs: list[slice]


def read_vocabulary_file(file: str | os.PathLike) -> list[str]:
    """
    Read the words to train with: one word per line, beginning with `<S>`, `</S>` and `<UNK>`.
    Raises an `InputError` that names the line if it is empty, has several words or occurs twice, or
    if the first lines are not these.
    """
    lines = _read_words(file)
    first = tuple(word for _, word in islice(lines, len(SPECIAL_WORDS)))
    if first != SPECIAL_WORDS:
        raise InputError(
            f"{file}: expected the first lines {', '.join(SPECIAL_WORDS)}, "
            f"found {', '.join(word[:SHOWN] for word in first) or 'nothing'}"
        )
    # Memory holds only distinct words, however large a compressed file becomes.
    seen = {word: line for line, word in enumerate(first, start=1)}
    for line, word in lines:
        if word in seen:
            raise InputError(
                f"{file}, line {line}: expected each word once, found {word!r} "
                f"that is on line {seen[word]} too"
            )
        seen[word] = line
    return list(seen)


def read_softmax_rows(file: str | os.PathLike, n_rows: int, of: str) -> SoftmaxRows:
    """
    Read the words of the `n_rows` rows of the softmax in the file `of`, as bilm-tf does: the
    special words may be anywhere, a line `!!!MAXTERMID` has no row, an empty line has one, and of
    equal words the last counts. Rows without a word of their own get names that no token has,
    because they are in the softmax too. Raises an `InputError` if there are more or fewer words or
    a special word is missing, or if a line has several words.
    """
    words: list[str] = []
    row_of: dict[str, int] = {}
    n_words = 0
    for n_words, (_, word) in enumerate(
        (x for x in _read_words(file, may_be_empty=True) if x[1] != WITHOUT_ROW), start=1
    ):
        if n_words > n_rows:  # count the rest, but do not store it
            continue
        word = word or f"(row\u00a0{len(words)})"
        if (earlier := row_of.get(word)) is not None:
            words[earlier] = f"{word}\u00a0(row\u00a0{earlier})"  # text is split at this space
        row_of[word] = len(words)
        words.append(word)
    if n_words != n_rows:
        fail(str(file), f"{n_rows} words, as the softmax in {of} has", n_words)
    if missing := [word for word in SPECIAL_WORDS if word not in row_of]:
        raise InputError(
            f"{file}: expected the words {', '.join(SPECIAL_WORDS)}, found no {missing[0]}"
        )
    special = [row_of[word] for word in SPECIAL_WORDS]
    rows = [*special, *(row for row in range(n_rows) if row not in special)]
    order = np.argsort(rows)  # the number of the word of each row in the file
    parts = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
    runs = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
    return SoftmaxRows([words[row] for row in rows], runs)


def _read_words(file: str | os.PathLike, may_be_empty: bool = False) -> Iterator[tuple[int, str]]:
    """The number and the word of each line."""
    # What reads text, compressed or not, is not needed for vectors.
    from elmo_plugin.text.lines import read_lines

    for line, text in enumerate(read_lines(Path(file), is_text=False), start=1):
        word = text.strip()
        if not word and not may_be_empty:
            raise InputError(f"{file}, line {line}: expected a word, found none")
        if _has_space(word):
            fail(f"{file}, line {line}", "one word", word)
        yield line, word


def _has_space(word: str) -> bool:
    """Whether it is several words, such as a word and its count."""
    return " " in word or "\t" in word


def write_vocabulary_file(words: Sequence[str], file: str | os.PathLike) -> None:
    """
    Write bilm-tf's vocabulary file. Raises an `InputError` if a word is empty, begins or ends with
    whitespace, contains a space, a tab or a line break, or cannot be encoded in UTF-8.
    """
    for index, word in enumerate(words):
        if not word or word != word.strip() or "\n" in word or "\r" in word or _has_space(word):
            raise InputError(
                f"expected words that each fit on one line, found {word!r} (id {index})"
            )
    try:
        text = "".join(f"{word}\n" for word in words).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"expected words that UTF-8 can hold, found {error.object[error.start]!r}"
        ) from error
    Path(file).write_bytes(text)
