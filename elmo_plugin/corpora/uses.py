"""
The uses of words in a text: each occurrence of a listed word, with its sentence, its position and
its vector. The text is read once, and only sentences with such a word are embedded.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import WHOLE, InputError, check_count, check_flag, fail, needed
from elmo_plugin.corpora.parts import PART_SENTENCES, write_results
from elmo_plugin.corpora.spans import Use, check_state, embedded, find_spans
from elmo_plugin.corpora.word_list import hint_at_tabs, word_forms
from elmo_plugin.corpora.writers import Columns
from elmo_plugin.elmo.frozen import weights_digest
from elmo_plugin.files.digest import digest, ends_in_checksum
from elmo_plugin.files.hdf5 import open_hdf5, read_column
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.advice import advised, current
from elmo_plugin.text.forms import labels_of, rows_in, text_rows
from elmo_plugin.text.lines import TABLE_NAME, read_lines
from elmo_plugin.text.raw_text import RUNNING, check_wrapped, raw_facts
from elmo_plugin.text.sentence import Sentence, groups
from elmo_plugin.text.tables import read_table
from elmo_plugin.text.text_files import find_files

AT_ONCE = 512
"""Number of sentences that are embedded at a time."""

UNSTORABLE = {"a DataFrame": re.compile("[\ud800-\udfff]"), "HDF5": re.compile("[\0\ud800-\udfff]")}
"""Characters that text cannot have: half a surrogate pair and, in HDF5, NUL."""

NUMBER = re.compile(r"\d{1,18}(\.0)?")
"""A place in a table. In a column with a missing value, pandas writes 3 as 3.0."""

VECTOR = "vector"
"""The column with the vectors, which follows those of `Use`."""


def uses_of(
    corpus: Any, words: Any, most: int | None, seed: int, raw: bool | str, controls: Iterable[str]
) -> tuple[Iterator[Use], dict[str, str]]:
    """
    The uses of words and `controls` or a sample of them, in the order of the text, and the word of
    each form; or those at the spans of a table, whose places are in the unit `words`. See
    `Elmo.uses`.
    """
    is_table = isinstance(corpus, str | os.PathLike) and TABLE_NAME.fullmatch(os.fspath(corpus))
    forms = {} if is_table else word_forms(words) | {word: word for word in controls}
    uses = find_uses(corpus, forms, raw)
    if is_table and raw == RUNNING:
        fail("--running-text", "a text, not a table", corpus)
    if is_table:
        uses = find_spans(_table_rows(os.fspath(corpus)), words, bool(raw))
    return iter(uses if most is None else sample(uses, most, seed)), forms


def _table_rows(table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as in `find_spans`."""
    file, columns = Path(local_path(table, "a table of spans")), ("sentence", "start", "end")
    for name, sentence, *places in read_table(file, table, columns, ("word",)):
        span = [int(x.removesuffix(".0")) if NUMBER.fullmatch(x) else x for x in places[:2]]
        yield name, sentence, *span, *places[2:]


def find_uses(
    corpus: Any, forms: dict[str, str], raw: bool | str = False, seen: Counter[str] | None = None
) -> Iterator[Use]:
    """
    The uses in the order of the text. `raw`: as in `Elmo.uses`, or `RUNNING` for files. `seen`
    counts all tokens of the text.
    """
    beginning_with: defaultdict[str, list[list[str]]] = defaultdict(list)
    for form in forms:
        beginning_with[form.partition(" ")[0]].append(form.split(" "))
    advice = current()
    advice.has_characters = True
    sentences = tqdm(_sentences(corpus, raw), unit=" sentences", desc="text")
    for sentence in sentences:
        tokens = sentence.tokens
        if seen is not None:
            seen.update(tokens)
        advice.of_characters([tokens])
        if not beginning_with.keys().isdisjoint(tokens):
            for position, token in enumerate(tokens):
                for own in beginning_with.get(token, ()):
                    if tokens[position : position + len(own)] == own:
                        word = forms[" ".join(own)]
                        yield Use(word, sentence, position, position + len(own))


def _sentences(corpus: Any, raw: bool | str) -> Iterator[Sentence]:
    if not isinstance(corpus, str | os.PathLike):
        labels = labels_of(corpus)
        if labels is not None and not labels.is_unique:
            expected = "a different label in each row, as after reset_index(drop=True)"
            fail("corpus", expected, list(labels))
        expected = "expected the path of a text, or sentences"
        yield from chain.from_iterable(rows_in(corpus, bool(raw), expected))
        return
    files = find_files(corpus)
    folder = os.path.commonpath([file.parent for file in files])
    for file in files:
        lines = check_wrapped(read_lines(file)) if raw is True else read_lines(file)
        rows = text_rows(enumerate(lines), raw, os.path.relpath(file, folder))
        yield from chain.from_iterable(rows)


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


def _check_options(elmo: Any, layer: str | int, most: Any, seed: Any) -> tuple[Any, int]:
    """The most uses of a word and the seed as integers."""
    check_state(elmo)
    if layer == "all":
        fail("layer", "one that gives a use one vector", layer)
    most = None if most is None else check_count("most", most)
    return most, check_count("seed", seed, least=0)


def uses_frame(
    elmo: Any, corpus: Any, words: Any, layer: str | int, most: int | None, seed: int, raw: bool
) -> Any:
    """The uses in the order of the text as a pandas DataFrame; see `Elmo.uses`."""
    needed("pandas")
    check_flag("raw", raw)
    most, seed = _check_options(elmo, layer, most, seed)
    uses, forms = uses_of(corpus, words, most, seed, raw, ())
    vectors = embedded(elmo, (_check_storable(use, "a DataFrame") for use in uses), layer)
    # Without a sample, the text's own bar shows the progress.
    rows = list(tqdm(vectors, unit=" uses", desc="vectors", disable=most is None))
    if not rows and isinstance(words, str) and words in forms:
        fail("words", "a file of words, or a word of the text", words)
    columns = [_columns(use) for use, _ in rows]
    return _frame(columns, [x for _, x in rows], vectors_from(elmo, layer, raw))


def vectors_from(elmo: Any, layer: str | int, raw: bool | str) -> dict[str, str]:
    """What vectors are from, which has to be the same for vectors that are compared."""
    weights = weights_digest(elmo.bilm).hexdigest()
    facts = {"layer": str(layer), "initial_state": elmo.initial_state, "biLM": weights}
    facts |= {"precision": elmo.bilm.precision, **raw_facts(raw), "raw": "true" if raw else "false"}
    if layer == elmo.n_layers - 1:
        facts["layer"] = "top"
    if layer == "mix":
        mix = elmo.mixes[0]
        norm = "by sentence" if mix.do_layer_norm else "False"
        facts["mix"] = f"{weights_digest(mix).hexdigest()}, do_layer_norm: {norm}"
    return facts


@advised()
def write_uses(
    out: str | os.PathLike,
    elmo: Any,
    corpus: Any,
    words: Any,
    layer: str | int,
    most: int | None,
    seed: int,
    raw: bool | str = False,
    shard: tuple[int, int] = (0, 1),
    controls: Mapping[str, list[str]] | None = None,
) -> Counter[str]:
    """
    Write the uses to a new HDF5 file with an array for each column of the DataFrame, or resume an
    interrupted run. Memory does not grow with the text. `shard`: the first sentence with uses, and
    the step to the next. `raw`: see `find_uses`. `controls`: the control words of each word, as
    from `control_words`, whose uses are written too. Returns the number of uses of each word, also
    0. Raises errors as `write_results`, and an `InputError` if the text has no uses, or if their
    text or the labels of their sentences cannot be stored.
    """
    most, seed = _check_options(elmo, layer, most, seed)
    control_of = {x: word for word, own in (controls or {}).items() for x in own}
    found, forms = uses_of(corpus, words, most, seed, raw, control_of)
    of_words = Counter(dict.fromkeys(forms.values(), 0))
    named = (use._replace(control_of=control_of.get(use.word, "")) for use in found)
    by_sentence = groupby((_check_storable(use, "HDF5") for use in named), attrgetter("sentence"))

    def sentences() -> Iterator[list[Use]]:
        for _, own in islice(by_sentence, shard[0], None, shard[1]):
            uses = list(own)
            of_words.update(use.word for use in uses)
            yield uses
        if not of_words.total() and shard[0] == 0:  # another shard may have none
            name = os.fspath(corpus) if isinstance(corpus, str | os.PathLike) else "corpus"
            hint = hint_at_tabs(of_words)
            raise InputError(f"{name}: expected a use of a listed word, found none{hint}")

    chosen = {"control words": digest(repr(controls).encode())} if controls else {}
    with elmo.snapshot(same_bits=True) as now:
        attributes = vectors_from(now, layer, raw)
        writer = Columns(
            COLUMNS | {VECTOR: np.dtype((COLUMNS[VECTOR], (now.output_dim,)))}, attributes | chosen
        )
        # The splitters are first, because other ones may find other words.
        facts = raw_facts(raw) | chosen | attributes | {"words": digest(repr(forms).encode())}
        facts |= {"most": most, "seed": seed, "raw": raw}
        parts = groups(sentences(), PART_SENTENCES)
        write_results(out, writer, partial(_tables, now, layer), now, parts, facts)
    return of_words


def _tables(
    elmo: Any, layer: str | int, sentences: list[list[Use]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The uses in sentences as tables, each with the number of its sentences."""
    for group in groups(sentences, AT_ONCE):
        uses, vectors = zip(*embedded(elmo, chain.from_iterable(group), layer))
        yield len(group), dict(zip(COLUMNS, (*zip(*map(_columns, uses)), np.stack(vectors))))


def _check_storable(use: Use, stored_in: str) -> Use:
    row, file = use.sentence.row, use.sentence.file
    if stored_in == "HDF5" and not isinstance(row, WHOLE):
        fail("corpus", "whole numbers as labels, as after reset_index(drop=True)", row)
    for column, value in zip(COLUMNS, _columns(use)):
        if isinstance(value, str) and (match := UNSTORABLE[stored_in].search(value)):
            line = f"{file}, line {use.sentence.line + 1}" if file else f"sentence {row}"
            raise InputError(
                f"{line}: {column}: expected text that {stored_in} can store, found the character "
                f"U+{ord(match[0]):04X}"
            )
    return use


def _columns(use: Use) -> tuple[Any, ...]:
    """The values of `COLUMNS` except the vector."""
    x = use.sentence
    place = x.file, x.row, use.first, x.text, x.in_row, x.line
    return use.word, use.token, *place, use.control_of


COLUMNS: dict[str, np.dtype] = {
    "word": h5py.string_dtype(),
    "token": h5py.string_dtype(),
    "file": h5py.string_dtype(),
    "sentence": np.dtype("<i8"),
    "position": np.dtype("<i8"),
    "text": h5py.string_dtype(),
    "sentence_in_row": np.dtype("<i8"),
    "line": np.dtype("<i8"),
    "control_of": h5py.string_dtype(),
    VECTOR: np.dtype("<f4"),
}
"""The columns of a table of uses; see `Elmo.uses`."""

ADDED = ("sentence_in_row", "line", "control_of")
"""Columns that files of earlier versions do not have."""


def read_uses(path: str | os.PathLike) -> Any:
    """
    Read the file of `write_uses` or of the command `uses` as a pandas DataFrame; see `Elmo.uses`.
    Raises an `InputError` if it is another file or damaged, or if pandas is not installed.
    """
    needed("pandas")
    with open_hdf5(path) as file:
        if not ends_in_checksum(Path(path)):
            raise InputError(f"{path}: expected the file as it was written, found damage")
        names = [name for name in COLUMNS if name in file or name not in ADDED]
        columns = {name: read_column(file, name, COLUMNS[name].kind) for name in names}
        sentences = columns["sentence"]
        defaults = np.zeros_like(sentences), sentences, np.full(sentences.shape, "", dtype=object)
        columns = dict(zip(ADDED, defaults)) | columns
        uses = list(zip(*(columns[name] for name in [*COLUMNS][:-1])))
        return _frame(uses, columns[VECTOR], dict(file.attrs))


def _frame(uses: list[Any], vectors: Iterable[np.ndarray], vectors_are_from: dict[str, Any]) -> Any:
    pandas = needed("pandas")
    frame = pandas.DataFrame(uses, columns=[*COLUMNS][:-1])
    if not uses:  # pandas does not know the types
        frame = frame.astype({x: str if COLUMNS[x].kind == "O" else COLUMNS[x] for x in frame})
    frame[VECTOR] = pandas.Series(list(vectors), dtype=object)
    frame.attrs = vectors_are_from
    return frame
