"""
Weight files in HDF5, in the format that bilm-tf, AllenNLP and others read.

Files written here contain a digest for each array, and the options they were written for. Other
programs ignore both, and their files are read without these checks.
"""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.bounds import check_expansion
from elmo_plugin.files.hdf5 import VERSION, HDF5Bytes, open_hdf5, read_text, write_array, write_text
from elmo_plugin.formats.bilm_tf.array_views import (
    EMBEDDING,
    WORDS,
    array_views,
    lexicon_views,
    warm_state_views,
)
from elmo_plugin.formats.bilm_tf.arrays import (
    SOFTMAX,
    Arrays,
    ArraysOfTwoFiles,
    HDF5Arrays,
    SoftmaxRows,
    fill,
)
from elmo_plugin.formats.bilm_tf.options_file import parse_options
from elmo_plugin.formats.found import FoundBiLM, allocate, meta_modules, tie
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.modules.word_list import WordList
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS

WRITTEN_FOR = "options.json"
"""Attribute of a weight file that contains its options."""

FIRST_CELL = "MultiRNNCell/Cell0/"
"""A level of the names that bilm-tf's files of one-layer models lack."""


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
        file = stack.enter_context(open_hdf5(path))
        _check_options(file, options)
        arrays: Arrays = HDF5Arrays(file)
        if softmax_file is not None:
            softmax = HDF5Arrays(stack.enter_context(open_hdf5(softmax_file)))
            arrays = ArraysOfTwoFiles(arrays, softmax)
        return read_arrays(options, arrays, vocabulary_file, with_softmax)


def read_arrays(
    options: BiLMOptions,
    arrays: Arrays,
    vocabulary_file: str | os.PathLike | None = None,
    with_softmax: bool = True,
) -> FoundBiLM:
    """
    Read a biLM of these `options` and, if there is a `vocabulary_file` with its words, the softmax.
    They are also the words of a table, if these are not among the arrays. The numbers may have any
    floating-point type. The warm state is read if there is one, and computed otherwise.

    Raises an `InputError` that names the file and the array as `check_weights`, and if an array is
    damaged or contains NaN or infinity, or if the vocabulary has other words or is missing.
    """
    has_softmax = with_softmax and any(arrays.shape(SOFTMAX + x) is not None for x in "Wb")
    needs_words = options.words is not None and arrays.shape(WORDS) is None
    rows = None
    if vocabulary_file is not None and (has_softmax or needs_words):
        rows = _rows(
            arrays, EMBEDDING if needs_words or options.is_tied else f"{SOFTMAX}W", vocabulary_file
        )
    elif needs_words:
        raise InputError(
            f"{arrays.path()}: expected a vocabulary file with the words of its table, found none"
        )
    if needs_words and rows is not None:
        options = options.of_words(rows.words)
    n_words = len(rows.words) if has_softmax and rows is not None else None
    bilm, softmax = check_weights(options, arrays, n_words)
    allocate(bilm)
    allocate(softmax)
    views = array_views(bilm, softmax)
    if has_warm_state := arrays.shape("warm_state/memory") is not None:
        views.update(warm_state_views(bilm))
    of_words = {EMBEDDING} if needs_words else set()
    of_words.update((f"{SOFTMAX}W", f"{SOFTMAX}b"))
    for name, parts in views.items():
        order = rows.order if rows is not None and name in of_words else None
        fill(parts, arrays, _find(arrays, name, parts), order)
    tie(bilm, softmax)
    _fill_lexicon(bilm, arrays, rows.words if needs_words and rows is not None else None)
    if not has_warm_state:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, None if rows is None else rows.words)


def _fill_lexicon(bilm: BiLM, arrays: Arrays, words: list[str] | None) -> None:
    """Fill what the token encoder looks up; the `words` of its table if the arrays lack them."""
    for name, parts in lexicon_views(bilm.token_encoder).items():
        if name != WORDS or words is None:
            fill(parts, arrays, _find(arrays, name, parts))
    for module in bilm.token_encoder.modules():
        if isinstance(module, WordList):
            try:
                module.index() if words is None else module.fill(words)
            except ValueError as error:
                raise InputError(f"{arrays.path()}: {WORDS}: {error}") from None


def check_weights(
    options: BiLMOptions, arrays: Arrays, n_softmax_words: int | None
) -> tuple[BiLM, SampledSoftmax | None]:
    """
    Check that arrays match `options`, and return modules of these sizes without memory.
    `n_softmax_words`: number of words of the softmax, if it is to be read. Raises an `InputError`
    if an array is missing, has another shape, or belongs to a layer that the options do not have;
    the message names the first such array. The same if the file would become much larger in memory.
    """
    try:
        # Every array takes more than 100 bytes, which bounds the number of layers.
        modules = meta_modules(options, n_softmax_words, arrays.n_bytes // 100)
    except InputError as error:
        raise InputError(f"{arrays.path()}: {error}") from None
    views = array_views(*modules)
    for name, parts in views.items():
        _find(arrays, name, parts)
    size = sum(part.nbytes for parts in views.values() for part in parts)
    check_expansion(arrays.path(), size, arrays.n_bytes)
    known = {*views, *(name.replace(FIRST_CELL, "") for name in views)}
    for name in arrays.names():
        if name.startswith(("CNN", "RNN")) and name not in known:
            raise InputError(
                f"{arrays.path(name)}: {name}: expected only arrays that the options describe, "
                "found this one too"
            )
    return modules


def write_weights(
    bilm: BiLM,
    path: str | os.PathLike,
    softmax: SampledSoftmax | None = None,
    dtype: torch.dtype = torch.float32,
    temporary: Path | None = None,
) -> None:
    """
    Write a weight file that bilm-tf, AllenNLP and others read, atomically. It also contains the
    `warm_state`, which other programs ignore, and the `softmax` if given. `dtype` is the type of
    the numbers, but the LSTM biases are always float32, because AllenNLP adds the forget gate's 1
    to them in the type of the file. See `atomic_write` for `temporary`.

    Raises an `InputError` if a setting of the biLM was changed after it was built from its options,
    or a number is not finite or too large for `dtype`, and a `DiskFullError` if the disk is full.
    """
    _check_settings(bilm)
    lexicon = lexicon_views(bilm.token_encoder)
    arrays = {**array_views(bilm, softmax), **warm_state_views(bilm), **lexicon}
    with (
        atomic_write(path, temporary) as written,
        HDF5Bytes(written) as disk,
        h5py.File(disk, "w", libver=(VERSION, VERSION)) as file,
    ):
        write_text(file, WRITTEN_FOR, json.dumps(bilm.options.to_dict()))
        for name, parts in arrays.items():
            kept = torch.float32 if name.endswith("/B") or name in lexicon else dtype
            numbers = torch.cat([part.to("cpu", kept) for part in parts])
            if not numbers.isfinite().all():
                raise InputError(
                    f"{path}: {name}: expected finite numbers of the type {kept}, found others"
                )
            write_array(file, name, numbers.numpy())
            disk.check()


def _rows(arrays: Arrays, name: str, vocabulary_file: str | os.PathLike) -> SoftmaxRows:
    """The words of the rows of the array `name`."""
    # What reads text, compressed or not, is not needed for vectors.
    from elmo_plugin.formats.bilm_tf.vocabulary_file import read_softmax_rows

    shape = arrays.shape(name)
    return read_softmax_rows(vocabulary_file, shape[0] if shape else 0, arrays.path(name))


def _find(arrays: Arrays, name: str, parts: list[Tensor]) -> str:
    """
    The name in the file of the array `name`, which must have the shape of the concatenated views
    `parts`.
    """
    expected = (sum(len(part) for part in parts), *parts[0].shape[1:])
    found = arrays.shape(name)
    if found is None:
        name_of_one_layer = name.replace(FIRST_CELL, "")
        found = arrays.shape(name_of_one_layer)
        name = name if found is None else name_of_one_layer
    if found is None:
        raise InputError(f"{arrays.path(name)}: {name}: expected an array, found none")
    if found != expected:
        hint = ""
        if name == "char_embed" and found[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise InputError(
            f"{arrays.path(name)}: {name}: expected the shape {expected}, as the options say, "
            f"found {found}{hint}"
        )
    return name


def _check_options(file: h5py.File, options: BiLMOptions) -> None:
    """Reject a file that was written for other options. Only files written here record them."""
    text = read_text(file, WRITTEN_FOR)
    if text is None or text == json.dumps(options.to_dict()):
        return
    found = parse_options(text, f"{file.filename}: {WRITTEN_FOR}")
    difference = options.difference(found)
    if difference is not None:
        key, expected, stored = difference
        raise InputError(
            f"{file.filename}: expected weights for {key} {expected}, as the options say, found "
            f"weights that were written for {key} {stored}"
        )


def _check_settings(bilm: BiLM) -> None:
    layers, options = bilm.bilstm.layers, bilm.options
    expected: dict[str, Any] = {
        "lstm.cell_clip": options.lstm.cell_clip,
        "lstm.proj_clip": options.lstm.proj_clip,
        "lstm.use_skip_connections": options.lstm.use_skip_connections,
    }
    found: dict[str, set[Any]] = {
        "lstm.cell_clip": {layer.cell_clip for layer in layers},
        "lstm.proj_clip": {layer.proj_clip for layer in layers},
        "lstm.use_skip_connections": {bilm.bilstm.use_skip_connections},
    }
    for module in bilm.token_encoder.modules():
        if isinstance(module, CharCNN) and options.char_cnn is not None:
            expected["char_cnn.activation"] = options.char_cnn.activation
            found["char_cnn.activation"] = {module.activation}
    for name, values in found.items():
        if values != {expected[name]}:
            raise InputError(
                f"{name}: expected {expected[name]}, as the biLM was built, found "
                f"{', '.join(map(str, values))}, which was set later"
            )
