"""
Weights in HDF5, as bilm-tf, AllenNLP and others read them.

The weight files that are written here can be checked: each array has its digest, and the file says
which options it belongs to. Other programs ignore both, and files of theirs, which have neither,
are read as they are.
"""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from elmo_plugin.bilm_tf.arrays import array_shapes, table
from elmo_plugin.bilm_tf.options_file import options_to_dict, parse_options, read_options
from elmo_plugin.data.characters import BEGIN_TOKEN, END_TOKEN, NUM_CHARACTERS
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.hdf5 import (
    VERSION,
    HDF5Bytes,
    HDF5Error,
    find_array,
    open_hdf5,
    read_array,
    read_text,
    write_array,
    write_text,
)
from elmo_plugin.modules import BiLM, LSTMState, SampledSoftmax
from elmo_plugin.modules.warm_state import warm_up
from elmo_plugin.options import BiLMOptions, build_bilm, options_of

WRITTEN_FOR = "options.json"
"""The attribute of a weight file that holds its options."""


def load_bilm(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    token_embedding_file: str | os.PathLike | None = None,
    vocabulary_file: str | os.PathLike | None = None,
) -> BiLM:
    """
    A biLM from its two files. Or from four, where its words are not spelled but looked up in a
    table of vectors that bilm-tf's `dump_token_embeddings` wrote for a vocabulary: word number k is
    that file's k-th, from 1 on.

    # Raises

    `OptionsError`, `HDF5Error`
        Naming the file, the key, and what was expected and found.
    """
    options = read_options(options_file)
    if token_embedding_file is None:
        check_weights(options, weight_file)
        bilm = build_bilm(options)
        read_weights(bilm, weight_file)
        return bilm
    if vocabulary_file is None:
        raise HDF5Error(f"{token_embedding_file}: expected its vocabulary's file too, found none")
    words = Path(vocabulary_file).read_text(encoding="utf-8").split()
    for boundary in (BEGIN_TOKEN, END_TOKEN):
        if boundary not in words:
            raise HDF5Error(f"{vocabulary_file}: expected the word {boundary}, found no such line")
    options = replace(options, char_cnn=None, n_words=len(words))
    check_weights(options, weight_file, token_embedding_file=token_embedding_file)
    bilm = build_bilm(options)
    numbers = [words.index(boundary) + 1 for boundary in (BEGIN_TOKEN, END_TOKEN)]
    bilm.boundaries.copy_(torch.tensor(numbers))
    read_weights(bilm, weight_file, token_embedding_file=token_embedding_file)
    return bilm


def check_weights(
    options: BiLMOptions,
    path: str | os.PathLike,
    n_softmax_words: int | None = None,
    token_embedding_file: str | os.PathLike | None = None,
) -> None:
    """
    Checks that a weight file belongs to `options`, before a biLM of these sizes is built.

    # Parameters

    options : `BiLMOptions`
    path : `str | os.PathLike`
        The weight file.
    n_softmax_words : `int | None`
        The number of words of its softmax, if that is going to be read.
    token_embedding_file : `str | os.PathLike | None`
        The file that has the table of words, if it is not the weight file.

    # Raises

    `HDF5Error`
        For the first array that is missing or of another shape, and for a weight file that was
        written for other options.
    """
    with open_hdf5(path) as file:
        _check_options(file, options, token_embedding_file is not None)
        for name, shape in array_shapes(options, n_softmax_words):
            if name != "embedding" or token_embedding_file is None:
                _find(file, name, shape)
    if token_embedding_file is not None:
        with open_hdf5(token_embedding_file) as file:
            _find(file, *next(array_shapes(options)))


def read_weights(
    bilm: BiLM,
    path: str | os.PathLike,
    softmax: SampledSoftmax | None = None,
    token_embedding_file: str | os.PathLike | None = None,
) -> None:
    """
    Fills a biLM, and its softmax if it is given, from a weight file: float32 or float16, compressed
    or not; a table of words from `token_embedding_file`, if that is given. Also takes the state at
    sentence starts (`warm`) that `write_weights` added, or else computes one. Nothing is changed
    before everything was found to be right.

    # Raises

    `HDF5Error`
        For a file that is not HDF5, or was written for other options; and for an array that is
        missing, of another shape, damaged, or not of finite numbers.
    """
    views = table(bilm, softmax)
    with open_hdf5(path) as file:
        _check_options(file, options_of(bilm), token_embedding_file is not None)
        words = views.pop("embedding", None) if token_embedding_file is not None else None
        arrays = {name: _read(file, name, parts) for name, parts in views.items()}
        warm = None
        if find_array(file, "warm_state/memory") is not None:
            warm = LSTMState(
                _read(file, "warm_state/memory", [bilm.warm_state.memory]),
                _read(file, "warm_state/output", [bilm.warm_state.output]),
            )
    if words is not None and token_embedding_file is not None:
        with open_hdf5(token_embedding_file) as file:
            arrays["embedding"] = _read(file, "embedding", words)
        views["embedding"] = words
    for name, parts in views.items():
        for view, array in zip(parts, arrays[name].split([len(part) for part in parts])):
            view.copy_(array)
    bilm.warm_state.set(warm if warm is not None else warm_up(bilm))


def write_weights(
    bilm: BiLM,
    path: str | os.PathLike,
    softmax: SampledSoftmax | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """
    Writes a weight file, whole or not at all, that bilm-tf, AllenNLP and the others read; with the
    softmax's two arrays if it is given. They do not know the `warm_state`, and pass it over.

    # Parameters

    bilm : `BiLM`
    path : `str | os.PathLike`
    softmax : `SampledSoftmax | None`
    dtype : `torch.dtype`
        The type of the numbers; but the LSTMs' biases are always float32, because AllenNLP adds
        the forget gate's 1 to them in the type that it finds.

    # Raises

    `DiskFullError`
        If there is no space for the file.
    """
    arrays = table(bilm, softmax)
    arrays["warm_state/memory"] = [bilm.warm_state.memory]
    arrays["warm_state/output"] = [bilm.warm_state.output]
    with (
        atomic_write(path) as temporary,
        HDF5Bytes(temporary) as disk,
        h5py.File(disk, "w", libver=(VERSION, VERSION)) as file,
    ):
        write_text(file, WRITTEN_FOR, json.dumps(options_to_dict(options_of(bilm))))
        for name, parts in arrays.items():
            kept = torch.float32 if name.endswith("/B") else dtype
            write_array(file, name, torch.cat([part.to("cpu", kept) for part in parts]).numpy())
            disk.check()


def n_softmax_words(path: str | os.PathLike) -> int | None:
    """The number of words of a weight file's softmax, which bilm-tf itself leaves out."""
    with open_hdf5(path) as file:
        weight = find_array(file, "softmax/W")
        return None if weight is None else int(weight.shape[0]) if weight.shape else 0


def has_softmax(path: str | os.PathLike) -> bool:
    """Whether a weight file holds the softmax."""
    return n_softmax_words(path) is not None


def _read(file: h5py.File, name: str, parts: list[Tensor]) -> Tensor:
    """The array `name`, of the shape of the views that it is to fill."""
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    return torch.from_numpy(read_array(_find(file, name, shape)))


def _find(file: h5py.File, name: str, expected: tuple[int, ...]) -> h5py.Dataset:
    found = find_array(file, name)
    if found is None:
        # bilm-tf names the one cell of a one-layer model without the cells' common level.
        found = find_array(file, name.replace("MultiRNNCell/Cell0/", ""))
    if found is None:
        raise HDF5Error(f"{file.filename}: {name}: expected an array, found none")
    if found.shape != expected:
        hint = ""
        if name == "char_embed" and found.shape[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise HDF5Error(
            f"{file.filename}: {name}: the options ask for the shape {expected}, "
            f"found {found.shape}{hint}"
        )
    return found


def _check_options(file: h5py.File, options: BiLMOptions, other_words: bool) -> None:
    """Whether the file says that it belongs to other options; those of the words do not matter for
    `other_words`. Only files that were written here say so."""
    text = read_text(file, WRITTEN_FOR)
    if text is None:
        return
    found = _sizes(parse_options(text, f"{file.filename}: {WRITTEN_FOR}"), not other_words)
    expected = _sizes(options, not other_words)
    for key in found | expected:
        if found.get(key) != expected.get(key):
            raise HDF5Error(
                f"{file.filename}: expected weights for {key} {expected.get(key)}, as the options "
                f"say, found weights that were written for {key} {found.get(key)}"
            )


def _sizes(options: BiLMOptions, with_words: bool) -> dict[str, Any]:
    sizes = {f"lstm.{key}": value for key, value in asdict(options.lstm).items()}
    if with_words and options.char_cnn is not None:
        sizes |= {f"char_cnn.{key}": value for key, value in asdict(options.char_cnn).items()}
    return sizes | ({"n_tokens_vocab": options.n_words} if with_words else {})
