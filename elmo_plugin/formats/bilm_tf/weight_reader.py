"""
Reads a biLM out of its arrays, which have the names of bilm-tf's HDF5: those of a weight file, or
of another kind of file that gives them as `Arrays`. Files of other programs have no digests, and do
not say which options they were written for.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, named
from elmo_plugin.files.hdf5 import array_names, find_array, open_hdf5, read_rows, read_text
from elmo_plugin.formats.bilm_tf.array_views import (
    EMBEDDING,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    WARM_STATE,
    WORDS,
    WRITTEN_FOR,
    Arrays,
    array_views,
)
from elmo_plugin.formats.bilm_tf.texts import SoftmaxRows, options_from_dict, read_softmax_rows
from elmo_plugin.formats.build import FoundBiLM, allocate, check_lexicon, meta_modules, tie
from elmo_plugin.formats.small_files import check_expansion, parse_json
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS

FIRST_CELL = "MultiRNNCell/Cell0/"
"""A level of the names that bilm-tf's files of one-layer models lack."""

OF_WORDS = (EMBEDDING, SOFTMAX_WEIGHT, SOFTMAX_BIAS)
"""The arrays with a row for each word."""

SOFTMAX = "softmax/"
"""The beginning of the names of the softmax's arrays."""


def read_weights(
    options: BiLMOptions,
    path: str | os.PathLike,
    vocabulary_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    with_softmax: bool = True,
) -> FoundBiLM:
    """
    Read a weight file, and the `softmax_file` if the softmax is in a file of its own, as
    `read_arrays`. The numbers may be compressed. Raises an `InputError` also if a file is not HDF5
    or was written for other options.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(open_hdf5(x)) for x in (path, softmax_file) if x is not None]
        arrays = HDF5Arrays(*files)
        options = _of_stored_words(options, arrays)
        _check_options(files[0], options)
        return read_arrays(options, arrays, vocabulary_file, with_softmax)


def _of_stored_words(options: BiLMOptions, arrays: Arrays) -> BiLMOptions:
    """
    Options with the sizes of the words that are among the arrays, if they do not have any: those of
    bilm-tf and of configs.
    """
    table, text = arrays.shape(EMBEDDING), arrays.shape(WORDS)
    if options.words is None or options.words.n_words or not table or not text:
        return options
    return replace(options, words=replace(options.words, n_words=table[0], n_bytes=text[0]))


def _check_options(file: h5py.File, options: BiLMOptions) -> None:
    """Reject a file that was written for other options. Only files written here record them."""
    text = read_text(file, WRITTEN_FOR)
    if text is None or text == json.dumps(options.to_dict()):
        return
    source = f"{file.filename}: {WRITTEN_FOR}"
    written = options_from_dict(parse_json(text, source, "an options file"), source=source)
    if difference := options.difference(written):
        key, expected, stored = difference
        raise InputError(
            f"{file.filename}: expected weights for {key} {expected}, as the options say, found "
            f"weights that were written for {key} {stored}"
        )


class HDF5Arrays:
    """The arrays of an open HDF5 file, and of a second one with the softmax if there is one."""

    def __init__(self, file: h5py.File, softmax: h5py.File | None = None) -> None:
        self._weights = file
        self._softmax = file if softmax is None else softmax
        paths = {self._weights.filename, self._softmax.filename}
        self.n_bytes = sum(map(os.path.getsize, paths))
        self._find = cache(lambda name: find_array(self._file(name), name))

    def _file(self, name: str) -> h5py.File:
        return self._softmax if name.startswith(SOFTMAX) else self._weights

    def path(self, name: str = "") -> str:
        return self._file(name).filename

    def names(self) -> Iterable[str]:
        return [*array_names(self._weights), *array_names(self._softmax)]

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = self._find(name)
        return None if array is None else array.shape

    def rows(self, name: str) -> Iterator[np.ndarray]:
        array = self._find(name)
        assert array is not None
        return read_rows(array)


def read_arrays(
    options: BiLMOptions,
    arrays: Arrays,
    vocabulary_file: str | os.PathLike | None = None,
    with_softmax: bool = True,
) -> FoundBiLM:
    """
    Read a biLM of these `options` and, if there is a `vocabulary_file` with its words, the softmax.
    They are also the words of a table, unless these are among the arrays, and then the same. The
    numbers may have any floating-point type. The warm state is read if there is one, and computed
    otherwise.

    Raises an `InputError` that names the file and the array if an array is missing, damaged or of
    another shape, contains NaN or infinity, or belongs to a layer that the options do not have; if
    the file would become much larger in memory; or if the vocabulary has other words or is missing.
    """
    is_table, has_words = options.char_cnn is None, arrays.shape(WORDS) is not None
    has_softmax = any(arrays.shape(x) is not None for x in (SOFTMAX_WEIGHT, SOFTMAX_BIAS))
    with_softmax = with_softmax and has_softmax and vocabulary_file is not None
    rows = None
    if vocabulary_file is not None and (with_softmax or is_table):
        rows = _read_rows(arrays, EMBEDDING if is_table else SOFTMAX_WEIGHT, vocabulary_file)
    if is_table and not has_words:
        if rows is None:
            raise InputError(
                f"{arrays.path()}: expected a vocabulary file with the words of its table, found "
                "none"
            )
        options = options.of_words(rows.words)
    with named(arrays.path()):
        # Every array takes more than 100 bytes, which bounds the number of layers.
        n_words = len(rows.words) if rows is not None and with_softmax else None
        bilm, softmax = meta_modules(options, n_words, arrays.n_bytes // 100)
    names = _names_in_file(arrays, array_views(bilm, softmax), has_words or not is_table)
    allocate(bilm)
    allocate(softmax)
    for name, parts in array_views(bilm, softmax).items():  # those above have no memory
        if name in names:
            order = rows.order if rows is not None and name in OF_WORDS else None
            fill(parts, arrays, names[name], order)
    tie(bilm, softmax)
    if is_table and not has_words and rows is not None:
        bilm.token_encoder.words.fill(rows.words)
    with named(arrays.path()):
        check_lexicon(bilm)
    if is_table and has_words and rows is not None:
        with named(str(vocabulary_file)):
            _check_words(bilm, rows, arrays.path())
    if WARM_STATE[0] not in names:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, None if rows is None else rows.words)


def _check_words(bilm: BiLM, rows: SoftmaxRows, source: str) -> None:
    """Raise an `InputError` if a vocabulary is not that of the table of words in `source`."""
    if rows.order is not None or bilm.token_encoder.words.words() != rows.words:
        raise InputError(f"expected the words of the table in {source}, found others")


def _read_rows(arrays: Arrays, name: str, vocabulary_file: str | os.PathLike) -> SoftmaxRows:
    """The words of the rows of the array `name`."""
    shape = arrays.shape(name)
    if not shape:
        raise _wrong(arrays, name, "an array", "none")
    return read_softmax_rows(vocabulary_file, shape[0], arrays.path(name))


def _names_in_file(
    arrays: Arrays, views: Mapping[str, list[Tensor]], has_words: bool
) -> dict[str, str]:
    """
    The name in the file of each array of `views`. There is none for the warm state if the file
    lacks it, and for words unless it `has_words`. Raises an `InputError` as `read_arrays`; the
    message names the first array.
    """
    left_out = WARM_STATE if has_words else (*WARM_STATE, WORDS)
    names = {x: _find(arrays, x, parts) for x, parts in views.items() if x not in left_out}
    n_bytes = sum(part.nbytes for name in names for part in views[name])
    check_expansion(arrays.path(), n_bytes, arrays.n_bytes)
    for name in arrays.names():
        if name.startswith(("CNN", "RNN", "lexicon")) and name not in names.values():
            raise _wrong(arrays, name, "only arrays that the options describe", "this one too")
    # Last, because the name of an array of a layer says more about other sizes.
    if arrays.shape(WARM_STATE[0]) is not None:
        names |= {name: _find(arrays, name, views[name]) for name in WARM_STATE}
    return names


def _find(arrays: Arrays, name: str, parts: list[Tensor]) -> str:
    """
    The name in the file of the array `name`, which must have the shape of the concatenated views
    `parts`.
    """
    if arrays.shape(name) is None and arrays.shape(name.replace(FIRST_CELL, "")) is not None:
        name = name.replace(FIRST_CELL, "")
    expected, shape = (sum(map(len, parts)), *parts[0].shape[1:]), arrays.shape(name)
    if shape is None:
        raise _wrong(arrays, name, "an array", "none")
    if shape != expected:
        hint = ""
        if name == "char_embed" and shape[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise _wrong(arrays, name, f"the shape {expected}, as the options say", f"{shape}{hint}")
    return name


def fill(parts: list[Tensor], arrays: Arrays, name: str, order: Tensor | None = None) -> None:
    """
    Copy an array into the views `parts`, which have its shape if they are concatenated. `order`:
    the row of the only view for each row of the array, shape `(V,)`, if they are not in order.
    Raises an `InputError` if a number is NaN, infinite or too large for float32, or is not one of
    the whole numbers of the views' type.
    """
    parts, start = list(parts), 0
    dtype = parts[0].dtype
    for stored in arrays.rows(name):
        with np.errstate(over="ignore"):
            block = torch.from_numpy(stored.astype(np.float32, copy=False))
        if not block.isfinite().all():
            raise _wrong(arrays, name, "finite float32 numbers", "NaN or infinity")
        numbers = block.to(dtype)
        # float16 rounds large numbers to others that are whole too.
        is_short = stored.dtype.itemsize < block.itemsize
        if not dtype.is_floating_point and (is_short or not torch.equal(numbers.float(), block)):
            expected = f"whole numbers of the type {dtype} in float32"
            raise _wrong(arrays, name, expected, f"others in {stored.dtype}")
        if order is not None:
            parts[0][order[start : start + len(block)]] = numbers
            start += len(block)
            continue
        while len(numbers):
            n = min(len(numbers), len(parts[0]))
            parts[0][:n].copy_(numbers[:n])
            parts[0], numbers = parts[0][n:], numbers[n:]
            if not len(parts[0]):
                del parts[0]


def _wrong(arrays: Arrays, name: str, expected: str, actual: str) -> InputError:
    return InputError(f"{arrays.path(name)}: {name}: expected {expected}, found {actual}")
