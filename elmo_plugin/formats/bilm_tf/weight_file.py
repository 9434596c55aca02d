"""
Weight files in HDF5, in the format that bilm-tf, AllenNLP and others read.

Files written here contain a digest for each array, and the options they were written for. Other
programs ignore both, and their files are read without these checks.
"""

import json
import os
from pathlib import Path

import h5py
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.bounds import check_expansion
from elmo_plugin.files.hdf5 import VERSION, HDF5Bytes, open_hdf5, read_text, write_array, write_text
from elmo_plugin.formats.bilm_tf.arrays import Arrays, HDF5Arrays, fill
from elmo_plugin.formats.bilm_tf.options_file import parse_options
from elmo_plugin.formats.found import FoundBiLM, allocate, meta_modules
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.modules.token_encoder import CodePointEncoder, WordTable
from elmo_plugin.ops.linear import Linear
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS

WRITTEN_FOR = "options.json"
"""Attribute of a weight file that contains its options."""

FIRST_CELL = "MultiRNNCell/Cell0/"
"""A level of the names that bilm-tf's files of one-layer models lack."""


def read_weights(
    options: BiLMOptions, path: str | os.PathLike, vocabulary_file: str | os.PathLike | None = None
) -> FoundBiLM:
    """
    Read a weight file as `read_arrays`. The numbers may be compressed. Raises an `InputError` also
    if the file is not HDF5 or was written for other options.
    """
    with open_hdf5(path) as file:
        _check_options(file, options)
        return read_arrays(options, HDF5Arrays(file), vocabulary_file)


def read_arrays(
    options: BiLMOptions, arrays: Arrays, vocabulary_file: str | os.PathLike | None = None
) -> FoundBiLM:
    """
    Read a biLM of these `options` and, if there is a `vocabulary_file` with its words, the softmax.
    The numbers may have any floating-point type. The warm state is read if there is one, and
    computed otherwise.

    Raises an `InputError` that names the file and the array as `check_weights`, and if an array is
    damaged or contains NaN or infinity, or if the vocabulary is not that of the softmax.
    """
    words = _softmax_words(arrays, vocabulary_file)
    bilm, softmax = check_weights(options, arrays, None if words is None else len(words))
    allocate(bilm)
    allocate(softmax)
    views = array_views(bilm, softmax)
    if has_warm_state := arrays.shape("warm_state/memory") is not None:
        views.update(_warm_state_views(bilm))
    for name, parts in views.items():
        fill(parts, arrays, _find(arrays, name, parts))
    if not has_warm_state:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, words)


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
        raise InputError(f"{arrays.path}: {error}") from None
    views = array_views(*modules)
    for name, parts in views.items():
        _find(arrays, name, parts)
    size = sum(part.nbytes for parts in views.values() for part in parts)
    check_expansion(arrays.path, size, arrays.n_bytes)
    known = {*views, *(name.replace(FIRST_CELL, "") for name in views)}
    for name in arrays.names():
        if name.startswith(("CNN", "RNN")) and name not in known:
            raise InputError(
                f"{arrays.path}: {name}: expected only arrays that the options describe, found "
                "this one too"
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
    arrays = {**array_views(bilm, softmax), **_warm_state_views(bilm)}
    with (
        atomic_write(path, temporary) as written,
        HDF5Bytes(written) as disk,
        h5py.File(disk, "w", libver=(VERSION, VERSION)) as file,
    ):
        write_text(file, WRITTEN_FOR, json.dumps(bilm.options.to_dict()))
        for name, parts in arrays.items():
            kept = torch.float32 if name.endswith("/B") else dtype
            numbers = torch.cat([part.to("cpu", kept) for part in parts])
            if not numbers.isfinite().all():
                raise InputError(
                    f"{path}: {name}: expected finite numbers of the type {kept}, found others"
                )
            write_array(file, name, numbers.numpy())
            disk.check()


def _softmax_words(arrays: Arrays, vocabulary_file: str | os.PathLike | None) -> list[str] | None:
    """
    The words of the softmax among the arrays; `None` if there is none, as in bilm-tf's HDF5 files,
    or if it is not to be read.
    """
    shape = None if vocabulary_file is None else arrays.shape("softmax/W")
    if shape is None or vocabulary_file is None:
        return None
    # What reads text, compressed or not, is not needed for vectors.
    from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file

    words = read_vocabulary_file(vocabulary_file)
    if len(words) != (n_words := shape[0] if shape else 0):
        raise InputError(
            f"{vocabulary_file}: expected {n_words} words, as the softmax in {arrays.path} has, "
            f"found {len(words)}"
        )
    return words


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
        raise InputError(f"{arrays.path}: {name}: expected an array, found none")
    if found != expected:
        hint = ""
        if name == "char_embed" and found[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise InputError(
            f"{arrays.path}: {name}: expected the shape {expected}, as the options say, "
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
    layers = bilm.bilstm.layers
    lstm, char_cnn = bilm.options.lstm, bilm.options.char_cnn
    for name, expected, found in (
        ("lstm.cell_clip", lstm.cell_clip, {layer.cell_clip for layer in layers}),
        ("lstm.proj_clip", lstm.proj_clip, {layer.proj_clip for layer in layers}),
        (
            "lstm.use_skip_connections",
            lstm.use_skip_connections,
            {bilm.bilstm.use_skip_connections},
        ),
        ("char_cnn.activation", char_cnn.activation, {bilm.token_encoder.activation}),
    ):
        if found != {expected}:
            raise InputError(
                f"{name}: expected {expected}, as the biLM was built, found "
                f"{', '.join(map(str, found))}, which was set later"
            )


def _warm_state_views(bilm: BiLM) -> dict[str, list[Tensor]]:
    return {f"warm_state/{x}": [getattr(bilm.warm_state, x)] for x in ("memory", "output")}


def array_views(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    Views of our parameters by array name, in the order in which the arrays are written. An array is
    its views concatenated along the first dimension: copying into the views reads it, and copying
    out of them writes it.
    """
    views = _encoder_views(bilm.token_encoder)
    for k, layer in enumerate(bilm.bilstm.layers):
        for d in (0, 1):  # forward, backward
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[d], layer.recurrent_weight[d]]
            views[f"{cell}/B"] = [layer.bias[d]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[d]]
    if softmax is not None:
        words = bilm.options.words
        if words is None or not words.tied:  # then it is the array `embedding`
            views["softmax/W"] = [softmax.weight]
        views["softmax/b"] = [softmax.bias]
    return {name: [part.detach() for part in parts] for name, parts in views.items()}


def _encoder_views(encoder: nn.Module) -> dict[str, list[Tensor]]:
    if isinstance(encoder, WordTable):
        views = {"embedding": [encoder.embedding.weight]}
        return {**views, **_projection_views(encoder.projection)}
    if isinstance(encoder, CodePointEncoder):
        views = _encoder_views(encoder.characters)
        if encoder.table is not None:
            views.update(_encoder_views(encoder.table))
        return {**views, **_projection_views(encoder.projection)}
    assert isinstance(encoder, CharCNN)
    # Row 0 means "no word here", and the file does not contain it.
    views = {"char_embed": [encoder.char_embedding.weight[1:]]}
    for i, conv in enumerate(encoder.convolutions):
        views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]  # (n, c, w) to (1, w, c, n)
        views[f"CNN/b_cnn_{i}"] = [conv.bias]
    for k, highway in enumerate(encoder.highways):
        for gate in ("carry", "transform"):
            linear = getattr(highway, gate)
            views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.t()]
            views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
    return {**views, **_projection_views(encoder.projection)}


def _projection_views(projection: Linear | None) -> dict[str, list[Tensor]]:
    if projection is None:
        return {}
    return {"CNN_proj/W_proj": [projection.weight.t()], "CNN_proj/b_proj": [projection.bias]}
