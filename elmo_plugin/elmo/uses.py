"""
The uses of words in a text: each occurrence of a listed word, with its sentence, its place and its
vector. The text is read once, and only sentences with such a word are embedded.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count, groupby, tee
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import h5py
import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import WHOLE, InputError, check_count, check_flag, fail, needed
from elmo_plugin.elmo.frozen import weights_digest
from elmo_plugin.elmo.parts import groups
from elmo_plugin.elmo.sentences import SPACE, check_is_list, is_series, names_of, tokens_of
from elmo_plugin.files.atomic_write import atomic_write, check_is_new
from elmo_plugin.files.digest import append_checksum, ends_in_checksum
from elmo_plugin.files.hdf5 import HDF5Bytes, open_hdf5, read_column
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.lines import read_blocks
from elmo_plugin.text.text_files import find_files

ROWS = 1024
"""Number of uses that are written at a time."""


class Use(NamedTuple):
    """
    An occurrence of a word. `word`: its name in the list. `token`: its form in the text.
    `sentence`: the number of the line in its file, or of the sentence in a list, or the label of
    the row in a pandas Series. `position`: the number of the token in its sentence. Numbers are
    counted from 0. `text`: the tokens of the sentence with single spaces between them.
    """

    word: str
    token: str
    file: str
    sentence: int
    position: int
    text: str


UNSTORABLE = {"a DataFrame": re.compile("[\ud800-\udfff]"), "HDF5": re.compile("[\0\ud800-\udfff]")}
"""Characters that text cannot have: half a surrogate pair and, in HDF5, NUL."""

VECTOR = "vector"
"""The column with the vectors, which follows those of `Use`."""


def word_forms(words: Any) -> dict[str, str]:
    """The word of each form. See `Elmo.uses` for `words`, and for the errors."""
    if isinstance(words, str | os.PathLike):
        file = Path(local_path(words, "a file of words"))
        lines = chain.from_iterable(read_blocks(file, name=str(words), is_text=False))
        pairs = (line.strip().partition("\t") for line in lines if line.strip())
        words = [(word, forms or [word]) for word, _, forms in pairs]
    elif isinstance(words, Mapping):
        words = words.items()
    elif isinstance(words, Iterable):
        words = [(word, [word]) for word in words]
    else:
        fail("words", "a list of words, a dictionary of their forms or a file", words)
    found: dict[str, str] = {}
    for word, forms in words:
        if not isinstance(forms, Iterable):
            fail(f"words: {word}", "a list of its forms", forms)
        for form in forms.split() if isinstance(forms, str) else forms:
            if not isinstance(form, str) or not form or SPACE.search(form):
                fail(
                    f"words: {word}",
                    "forms without spaces, which a tab separates from the word in a file",
                    form,
                )
            if found.setdefault(form, word) != word:
                fail("words", f"{form!r} as a form of one word", f"it at {found[form]}, {word}")
    if not found:
        fail("words", "at least one word", words)
    return found


def find_uses(corpus: Any, forms: dict[str, str], raw: bool = False) -> Iterator[Use]:
    """The uses in the order of the text."""
    for file, number, tokens in tqdm(_sentences(corpus, raw), unit=" sentences", desc="text"):
        if not forms.keys().isdisjoint(tokens):
            text = " ".join(tokens)
            for position, token in enumerate(tokens):
                if (word := forms.get(token)) is not None:
                    yield Use(word, token, file, number, position, text)


def _sentences(corpus: Any, raw: bool) -> Iterator[tuple[str, Any, list[str]]]:
    """The file, number and tokens of each sentence."""
    if not isinstance(corpus, str | os.PathLike):
        check_is_list(corpus, "expected the path of a text, or sentences")
        labels: Any = corpus.index if is_series(corpus) else count()
        if is_series(corpus) and not labels.is_unique:
            expected = "a different label in each row, as after reset_index(drop=True)"
            fail("corpus", expected, list(labels))
        for label, name, sentence in zip(labels, names_of(corpus), corpus):
            yield "", label, tokens_of(name, sentence, raw)
        return
    files = find_files(corpus)
    folder = os.path.commonpath([file.parent for file in files])
    for file in files:
        for number, line in enumerate(chain.from_iterable(read_blocks(file))):
            yield os.path.relpath(file, folder), number, tokens_of("", line, raw)


def sample(uses: Iterable[Use], most: int, seed: int) -> list[Use]:
    """
    At most `most` uses of each word, in the order of the text. All its uses are equally likely, and
    the sample does not depend on the other words (algorithm R of Vitter 1985).
    """
    kept: defaultdict[str, list[tuple[int, Use]]] = defaultdict(list)
    random: dict[str, Random] = {}
    seen: defaultdict[str, int] = defaultdict(int)
    for item in enumerate(uses):
        word = item[1].word
        seen[word] += 1
        if seen[word] <= most:
            kept[word].append(item)
            continue
        place = random.setdefault(word, Random(f"{seed} {word}")).randrange(seen[word])
        if place < most:
            kept[word][place] = item
    return [use for _, use in sorted(chain.from_iterable(kept.values()))]


def uses_with_vectors(
    elmo: Any,
    corpus: Any,
    forms: dict[str, str],
    layer: str | int,
    most: int | None,
    seed: int,
    raw: bool = False,
    *,
    stored_in: str = "a DataFrame",
) -> Iterator[tuple[Use, np.ndarray]]:
    """
    The uses in the order of the text, each with its vector. `forms`: those of `word_forms`. See
    `Elmo.uses`. Raises an `InputError` if the text of a use cannot be stored.
    """
    if elmo.initial_state == "carry":
        fail("initial_state", "zero or warm, because sentences are left out", elmo.initial_state)
    if layer == "all":
        fail("layer", "one that gives a use one vector", layer)
    check_count("seed", seed, least=0)
    check_flag("raw", raw)
    uses: Iterable[Use] = find_uses(corpus, forms, raw)
    if most is not None:
        check_count("most", most)
        uses = tqdm(sample(uses, most, seed), unit=" uses", desc="vectors")
    # The second iterator is ahead by the sentences that the stream embeds at a time.
    checked = (_check_storable(use, stored_in) for use in uses)
    sentences, ahead = tee(list(found) for _, found in groupby(checked, key=lambda use: use[2:4]))
    vectors = elmo.stream((found[0].text.split(" ") for found in ahead), layer)
    for found, numbers in zip(sentences, vectors):
        for use in found:
            yield use, numbers[use.position].copy()


def uses_frame(elmo: Any, corpus: Any, words: Any, layer: str | int, *arguments: Any) -> Any:
    """The `uses_with_vectors` as a pandas DataFrame."""
    needed("pandas")
    found = list(uses_with_vectors(elmo, corpus, word_forms(words), layer, *arguments))
    uses, vectors = [use for use, _ in found], [vector for _, vector in found]
    return _frame(uses, vectors, vectors_from(elmo, layer))


def vectors_from(elmo: Any, layer: str | int) -> dict[str, str]:
    """What vectors are from, which has to be the same for vectors that are compared."""
    weights = weights_digest(elmo.bilm).hexdigest()
    found = {"layer": str(layer), "initial_state": elmo.initial_state, "biLM": weights}
    if layer == elmo.n_layers - 1:
        found["layer"] = "top"
    if layer == "mix":
        mix = elmo.mixes[0]
        found["mix"] = f"{weights_digest(mix).hexdigest()}, do_layer_norm: {mix.do_layer_norm}"
    return found


def write_uses(
    out: str | os.PathLike, elmo: Any, corpus: Any, words: Any, layer: str | int, *arguments: Any
) -> Counter[str]:
    """
    Write the `uses_with_vectors` to a new HDF5 file with an array for each column of the DataFrame.
    Memory does not grow with the text. Returns the number of uses of each word, also 0. Raises an
    `InputError` if the file exists, if there are no uses, or if their text or the labels of their
    sentences cannot be stored, and a `DiskFullError` if the disk is full.
    """
    check_is_new(out)
    forms = word_forms(words)
    found = uses_with_vectors(elmo, corpus, forms, layer, *arguments, stored_in="HDF5")
    of_words = Counter(dict.fromkeys(forms.values(), 0))
    with atomic_write(out) as temporary:
        with HDF5Bytes(temporary) as disk, h5py.File(disk, "w") as file:
            file.attrs.update(vectors_from(elmo, layer))
            for name, dtype in COLUMNS.items():
                shape = (elmo.output_dim,) if name == VECTOR else ()
                limits = {"maxshape": (None, *shape), "chunks": (ROWS, *shape)}
                file.create_dataset(name, (0, *shape), dtype, **limits)
            for rows in groups(found, ROWS):
                uses, vectors = zip(*rows)
                n_uses = of_words.total()
                for name, values in zip(COLUMNS, (*zip(*uses), np.stack(vectors))):
                    file[name].resize(n_uses + len(rows), axis=0)
                    file[name][n_uses:] = np.asarray(values, dtype=COLUMNS[name])
                of_words.update(use.word for use in uses)
                disk.check()
        if not of_words.total():
            raise InputError(f"{corpus}: expected a use of a listed word, found none")
        append_checksum(temporary)
    return of_words


def _check_storable(use: Use, stored_in: str) -> Use:
    if stored_in == "HDF5" and not isinstance(use.sentence, WHOLE):
        expected = "whole numbers as labels, as after reset_index(drop=True)"
        fail("corpus", expected, use.sentence)
    for column, value in zip(Use._fields, use):
        if isinstance(value, str) and (found := UNSTORABLE[stored_in].search(value)):
            line = (
                f"{use.file}, line {use.sentence + 1}" if use.file else f"sentence {use.sentence}"
            )
            raise InputError(
                f"{line}: {column}: expected text that {stored_in} can store, found the character "
                f"U+{ord(found[0]):04X}"
            )
    return use


COLUMNS: dict[str, np.dtype] = {
    name: np.dtype("<i8") if kind is int else h5py.string_dtype()
    for name, kind in Use.__annotations__.items()
}
COLUMNS[VECTOR] = np.dtype("<f4")
"""The type of each column."""


def read_uses(path: str | os.PathLike) -> Any:
    """
    Read the file of `write_uses` or of the command `uses` as a pandas DataFrame; see `Elmo.uses`.
    Raises an `InputError` if it is another file or damaged, or if pandas is not installed.
    """
    needed("pandas")
    with open_hdf5(path) as file:
        if not ends_in_checksum(Path(path)):
            raise InputError(f"{path}: expected the file as it was written, found damage")
        columns = [read_column(file, name, dtype.kind) for name, dtype in COLUMNS.items()]
        return _frame(list(zip(*columns[:-1])), columns[-1], dict(file.attrs))


def _frame(uses: list[Any], vectors: Iterable[np.ndarray], vectors_are_from: dict[str, Any]) -> Any:
    frame = needed("pandas").DataFrame(uses, columns=Use._fields)
    frame[VECTOR] = list(vectors)
    frame.attrs = vectors_are_from
    return frame
