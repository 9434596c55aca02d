"""A biLM out of its arrays, which have the names of bilm-tf's HDF5, in files of several kinds."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, named
from elmo_plugin.formats.bilm_tf.array_views import (
    EMBEDDING,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    WARM_STATE,
    WORDS,
    array_views,
)
from elmo_plugin.formats.bilm_tf.texts import SoftmaxRows, read_softmax_rows
from elmo_plugin.formats.build import FoundBiLM, allocate, check_lexicon, meta_modules, tie
from elmo_plugin.formats.small_files import check_expansion
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS

FIRST_CELL = "MultiRNNCell/Cell0/"
"""A level of the names that bilm-tf's files of one-layer models lack."""

OF_WORDS = (EMBEDDING, SOFTMAX_WEIGHT, SOFTMAX_BIAS)
"""The arrays with a row for each word."""


class Arrays(Protocol):
    """
    The named arrays of floating-point numbers of a biLM. Each method raises an `InputError` that
    begins with the file's path if a file is damaged.
    """

    n_bytes: int
    """The size of all files."""

    def path(self, name: str = "") -> str:
        """The file with the array `name`."""

    def names(self) -> Iterable[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; `None` if there is no such array."""

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, in blocks, so that a large one is not in memory twice."""


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
        if rows.order is not None or bilm.token_encoder.words.words() != rows.words:
            raise InputError(
                f"{vocabulary_file}: expected the words of the table in {arrays.path()}, found "
                "others"
            )
    if WARM_STATE[0] not in names:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, None if rows is None else rows.words)


def _read_rows(arrays: Arrays, name: str, vocabulary_file: str | os.PathLike) -> SoftmaxRows:
    """The words of the rows of the array `name`."""
    shape = arrays.shape(name)
    if not shape:
        raise InputError(f"{arrays.path(name)}: {name}: expected an array, found none")
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
            raise InputError(
                f"{arrays.path(name)}: {name}: expected only arrays that the options describe, "
                "found this one too"
            )
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
        raise InputError(f"{arrays.path(name)}: {name}: expected an array, found none")
    if shape != expected:
        hint = ""
        if name == "char_embed" and shape[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise InputError(
            f"{arrays.path(name)}: {name}: expected the shape {expected}, as the options say, "
            f"found {shape}{hint}"
        )
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
            raise InputError(
                f"{arrays.path(name)}: {name}: expected finite float32 numbers, found NaN or "
                "infinity"
            )
        numbers = block.to(dtype)
        # float16 rounds large numbers to others that are whole too.
        is_short = stored.dtype.itemsize < block.itemsize
        if not dtype.is_floating_point and (is_short or not torch.equal(numbers.float(), block)):
            raise InputError(
                f"{arrays.path(name)}: {name}: expected whole numbers of the type {dtype} in "
                f"float32, found others in {stored.dtype}"
            )
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
