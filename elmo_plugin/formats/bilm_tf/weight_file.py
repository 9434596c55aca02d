"""
Weight files in HDF5, in the format that bilm-tf, AllenNLP and others read.

Files written here contain a digest for each array, and the options they were written for. Other
programs ignore both, and their files are read without these checks.
"""

import json
import os
from contextlib import ExitStack
from dataclasses import replace

import h5py
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, named
from elmo_plugin.files.hdf5 import VERSION, HDF5Bytes, open_hdf5, read_text, write_array, write_text
from elmo_plugin.formats.bilm_tf.array_views import (
    EMBEDDING,
    LEXICON,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    WARM_STATE,
    WORDS,
    array_views,
)
from elmo_plugin.formats.bilm_tf.arrays import Arrays, HDF5Arrays, fill
from elmo_plugin.formats.bilm_tf.texts import options_from_dict
from elmo_plugin.formats.build import FoundBiLM, allocate, check_lexicon, meta_modules, tie
from elmo_plugin.formats.small_files import check_expansion, parse_json
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
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
        files = [stack.enter_context(open_hdf5(x)) for x in (path, softmax_file) if x is not None]
        arrays = HDF5Arrays(*files)
        options = _of_stored_words(options, arrays)
        _check_options(files[0], options)
        return read_arrays(options, arrays, vocabulary_file, with_softmax)


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
    reads_softmax = vocabulary_file is not None and with_softmax and has_softmax
    rows = None
    if vocabulary_file is not None and (reads_softmax or is_table):
        # What reads text, compressed or not, is not needed for vectors.
        from elmo_plugin.formats.bilm_tf.texts import read_softmax_rows

        shape = arrays.shape(name := EMBEDDING if is_table else SOFTMAX_WEIGHT)
        if not shape:
            raise InputError(f"{arrays.path(name)}: {name}: expected an array, found none")
        rows = read_softmax_rows(vocabulary_file, shape[0], arrays.path(name))
    left_out = set(WARM_STATE) if arrays.shape(WARM_STATE[0]) is None else set()
    if is_table and not has_words:
        left_out.add(WORDS)
        if rows is None:
            raise InputError(
                f"{arrays.path()}: expected a vocabulary file with the words of its table, found "
                "none"
            )
        options = options.of_words(rows.words)
    n_words = len(rows.words) if rows is not None and reads_softmax else None
    # Of other sizes than the file's, an error names an array of a layer, which says more.
    bilm, softmax = _checked(options, arrays, n_words, {*left_out, *WARM_STATE})
    allocate(bilm)
    allocate(softmax)
    for name, parts in array_views(bilm, softmax).items():
        if name not in left_out:
            of_words = name in (EMBEDDING, SOFTMAX_WEIGHT, SOFTMAX_BIAS)
            order = rows.order if rows is not None and of_words else None
            fill(parts, arrays, _find(arrays, name, parts), order)
    tie(bilm, softmax)
    words = None if rows is None else rows.words
    if WORDS in left_out:
        bilm.token_encoder.words.fill(words)
    with named(arrays.path()):
        check_lexicon(bilm)
    if is_table and has_words and rows is not None:
        if rows.order is not None or bilm.token_encoder.words.words() != words:
            raise InputError(
                f"{vocabulary_file}: expected the words of the table in {arrays.path()}, found "
                "others"
            )
    if WARM_STATE[0] in left_out:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, words)


def _of_stored_words(options: BiLMOptions, arrays: Arrays) -> BiLMOptions:
    """
    Options with the sizes of the words that are among the arrays, if they do not have any: those of
    bilm-tf and of configs.
    """
    table, text = arrays.shape(EMBEDDING), arrays.shape(WORDS)
    if options.words is None or options.words.n_words or not table or not text:
        return options
    return replace(options, words=replace(options.words, n_words=table[0], n_bytes=text[0]))


def _checked(
    options: BiLMOptions, arrays: Arrays, n_softmax_words: int | None, left_out: set[str]
) -> tuple[BiLM, SampledSoftmax | None]:
    """
    Check that arrays match `options`, and return modules of these sizes without memory.
    `n_softmax_words`: number of words of the softmax, if it is to be read. `left_out`: names that
    are not expected. Raises an `InputError` as `read_arrays`; the message names the first array.
    """
    with named(arrays.path()):
        # Every array takes more than 100 bytes, which bounds the number of layers.
        modules = meta_modules(options, n_softmax_words, arrays.n_bytes // 100)
    views = {name: x for name, x in array_views(*modules).items() if name not in left_out}
    for name, parts in views.items():
        _find(arrays, name, parts)
    size = sum(part.nbytes for parts in views.values() for part in parts)
    check_expansion(arrays.path(), size, arrays.n_bytes)
    known = {*views, *(name.replace(FIRST_CELL, "") for name in views)}
    for name in arrays.names():
        if name.startswith(("CNN", "RNN", "lexicon")) and name not in known:
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
) -> None:
    """
    Write a weight file that bilm-tf, AllenNLP and others read. It also contains the `warm_state`,
    which other programs ignore, and the `softmax` if given. `dtype` is the type of the numbers, but
    the LSTM biases are always float32, because AllenNLP adds the forget gate's 1 to them in the
    type of the file.

    Raises an `InputError` if a setting of the biLM was changed after it was built from its options,
    or a number is not finite or too large for `dtype`.
    """
    _check_settings(bilm)
    with HDF5Bytes(path) as disk, h5py.File(disk, "w", libver=(VERSION, VERSION)) as file:
        write_text(file, WRITTEN_FOR, json.dumps(bilm.options.to_dict()))
        for name, parts in array_views(bilm, softmax).items():
            kept = torch.float32 if name.endswith("/B") or name in LEXICON else dtype
            numbers = torch.cat([part.to("cpu", kept) for part in parts])
            if not numbers.isfinite().all():
                raise InputError(
                    f"{path}: {name}: expected finite numbers of the type {kept}, found others"
                )
            write_array(file, name, numbers.numpy())
            disk.check()


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
    source = f"{file.filename}: {WRITTEN_FOR}"
    found = options_from_dict(parse_json(text, source, "an options file"), source=source)
    if difference := options.difference(found):
        key, expected, stored = difference
        raise InputError(
            f"{file.filename}: expected weights for {key} {expected}, as the options say, found "
            f"weights that were written for {key} {stored}"
        )


def _check_settings(bilm: BiLM) -> None:
    lstm, char_cnn, bilstm = bilm.options.lstm, bilm.options.char_cnn, bilm.bilstm
    settings = [
        (f"lstm.{key}", getattr(lstm, key), getattr(layer, key))
        for layer in bilstm.layers
        for key in ("cell_clip", "proj_clip")
    ]
    key = "use_skip_connections"
    settings.append((f"lstm.{key}", getattr(lstm, key), getattr(bilstm, key)))
    for module in bilm.token_encoder.modules():
        if isinstance(module, CharCNN) and char_cnn is not None:
            settings.append(("char_cnn.activation", char_cnn.activation, module.activation))
    for name, expected, found in settings:
        if found != expected:
            raise InputError(
                f"{name}: expected {expected}, as the biLM was built, found {found}, which was set "
                "later"
            )
