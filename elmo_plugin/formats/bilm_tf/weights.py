"""
Reads and writes weight files in HDF5, in the format that bilm-tf, AllenNLP and others read. Ours
also have a digest for each array and the options that the file is for, which other programs ignore.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache

import h5py
import numpy as np
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.files import hdf5
from elmo_plugin.formats.bilm_tf.arrays import (
    LEXICON,
    SOFTMAX,
    WRITTEN_FOR,
    NamedArrays,
    array_views,
    read_arrays,
)
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.options import BiLMOptions


class HDF5Arrays(NamedArrays):
    """The arrays of an open HDF5 file, and of a second one with the softmax if there is one."""

    def __init__(self, file: h5py.File, softmax: h5py.File | None = None) -> None:
        self._weights = file
        self._softmax = file if softmax is None else softmax
        self.n_bytes = sum(map(os.path.getsize, {file.filename, self._softmax.filename}))
        self.written_for = hdf5.read_text(file, WRITTEN_FOR)
        self._find = cache(lambda name: hdf5.find_array(self._file(name), name))

    def _file(self, name: str) -> h5py.File:
        return self._softmax if name.startswith(SOFTMAX) else self._weights

    def path(self, name: str = "") -> str:
        return self._file(name).filename

    def names(self) -> Iterable[str]:
        return [*hdf5.array_names(self._weights), *hdf5.array_names(self._softmax)]

    def shape(self, name: str) -> tuple[int, ...] | None:
        array = self._find(name)
        return None if array is None else array.shape

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        array = self._find(name)
        assert array is not None
        return hdf5.read_rows(array)


def read_weights(
    options: BiLMOptions,
    path: str | os.PathLike,
    vocabulary_file: str | os.PathLike | None = None,
    softmax_file: str | os.PathLike | None = None,
    *,
    with_softmax: bool,
) -> FoundBiLM:
    """
    Read a weight file, and the `softmax_file` if the softmax is in a file of its own, as
    `read_arrays`. The numbers may be compressed. Raises an `InputError` also if a file is not HDF5.
    """
    with ExitStack() as stack:
        paths = [path] if softmax_file is None else [path, softmax_file]
        files = [stack.enter_context(hdf5.open_hdf5(x)) for x in paths]
        arrays = HDF5Arrays(*files)
        return read_arrays(options, arrays, vocabulary_file, with_softmax=with_softmax)


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
    versions = (hdf5.VERSION, hdf5.VERSION)
    with hdf5.HDF5Bytes(path) as disk, h5py.File(disk, "w", libver=versions) as file:
        hdf5.write_text(file, WRITTEN_FOR, json.dumps(bilm.options.to_dict()))
        for name, parts in array_views(bilm, softmax).items():
            kept = torch.float32 if name.endswith("/B") or name in LEXICON else dtype
            numbers = torch.cat([part.to("cpu", kept) for part in parts])
            if not numbers.isfinite().all():
                raise InputError(
                    f"{name}: expected finite numbers of the type {kept}, found others"
                )
            hdf5.write_array(file, name, numbers.numpy())
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
