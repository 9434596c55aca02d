"""
Weight files in HDF5, in the format that bilm-tf, AllenNLP and others read.

Files written here contain a digest for each array, and the options they were written for. Other
programs ignore both, and their files are read without these checks.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import h5py
import numpy as np
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import (
    VERSION,
    HDF5Bytes,
    array_names,
    find_array,
    open_hdf5,
    read_rows,
    read_text,
    write_array,
    write_text,
)
from elmo_plugin.formats.bilm_tf.array_views import EMBEDDING, LEXICON, WORDS, array_views
from elmo_plugin.formats.bilm_tf.arrays import Arrays, read_arrays
from elmo_plugin.formats.bilm_tf.texts import OPTIONS, options_from_dict
from elmo_plugin.formats.build import FoundBiLM
from elmo_plugin.formats.small_files import parse_json
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.options import BiLMOptions

WRITTEN_FOR = OPTIONS
"""Attribute of a weight file that contains its options."""

SOFTMAX = "softmax/"
"""The beginning of the names of the softmax's arrays."""


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
                    f"{name}: expected finite numbers of the type {kept}, found others"
                )
            write_array(file, name, numbers.numpy())
            disk.check()


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
    for name, expected, value in settings:
        if value != expected:
            raise InputError(
                f"{name}: expected {expected}, as the biLM was built, found {value}, which was set "
                "later"
            )
