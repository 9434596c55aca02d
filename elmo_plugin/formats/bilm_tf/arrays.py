"""
bilm-tf's arrays of a biLM, in whatever kind of file they are: their names, our parameters as views
of their layout, and how they are read.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, named
from elmo_plugin.formats.bilm_tf.texts import (
    OPTIONS,
    SoftmaxRows,
    options_from_dict,
    read_softmax_rows,
)
from elmo_plugin.formats.fill import Arrays, Layout, check_lexicon, fill, meta_modules, stored, tie
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.formats.json_and_text import check_expansion, parse_json
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.modules.lexicon import CodePoints, WordList
from elmo_plugin.modules.token_encoder import WordTable
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS

EMBEDDING = "embedding"
SOFTMAX_WEIGHT, SOFTMAX_BIAS = SOFTMAX_ARRAYS = ("softmax/W", "softmax/b")

WRITTEN_FOR = OPTIONS
"""Attribute of a weight file that contains its options. Other programs ignore it."""

# Other programs do not have these.
WARM_STATE = ("warm_state/memory", "warm_state/output")
WORDS, CODE_POINTS, MARKS = LEXICON = ("lexicon/words", "lexicon/code_points", "lexicon/marks")
"""What a token encoder looks up. As all arrays, they are numbers of floating point, which hold the
whole numbers exactly."""

SOFTMAX = "softmax/"
"""The beginning of the names of the softmax's arrays."""

OF_BILM = ("CNN", "RNN", "lexicon")
"""What the names of a biLM's arrays begin with, if others than those in its layout are an error."""

FIRST_CELL = "MultiRNNCell/Cell0/"
"""A level of the names that bilm-tf's files of one-layer models lack."""


def array_views(bilm: BiLM, softmax: SampledSoftmax | None = None) -> Layout:
    """The layout of bilm-tf's arrays, in the order in which they are written."""
    views = _encoder_views(bilm.token_encoder)
    for k, layer in enumerate(bilm.bilstm.layers):
        for d in (0, 1):  # forward, backward
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[d], layer.recurrent_weight[d]]
            views[f"{cell}/B"] = [layer.bias[d]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[d]]
    if softmax is not None:
        if not bilm.options.is_tied:  # then it is the array `embedding`
            views[SOFTMAX_WEIGHT] = [softmax.weight]
        views[SOFTMAX_BIAS] = [softmax.bias]
    for name in WARM_STATE:
        views[name] = [getattr(bilm.warm_state, name.rpartition("/")[2])]
    for module in bilm.token_encoder.modules():
        if isinstance(module, WordList):
            views[WORDS] = [module.text]
        elif isinstance(module, CodePoints):
            views[CODE_POINTS], views[MARKS] = [module.code_points], [module.marks]
    return {name: [part.detach() for part in parts] for name, parts in views.items()}


def _encoder_views(encoder: Any) -> Layout:
    views: Layout = {}
    for module in encoder.modules():
        if isinstance(module, CharCNN):
            # Row 0 means "no word here", and the file does not contain it.
            views["char_embed"] = [module.char_embedding.weight[1:]]
            for i, conv in enumerate(module.convolutions):
                # (n, c, w) to (1, w, c, n)
                views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]
                views[f"CNN/b_cnn_{i}"] = [conv.bias]
            for k, highway in enumerate(module.highways):
                for gate in ("carry", "transform"):
                    linear = getattr(highway, gate)
                    views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.t()]
                    views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
        elif isinstance(module, WordTable):
            views[EMBEDDING] = [module.embedding.weight]
    # Encoders inside another one have no projection.
    if encoder.projection is not None:
        views["CNN_proj/W_proj"] = [encoder.projection.weight.t()]
        views["CNN_proj/b_proj"] = [encoder.projection.bias]
    return views


class NamedArrays(Arrays, Protocol):
    """
    The arrays of floating-point numbers in a kind of file, under bilm-tf's names. Each method
    raises an `InputError` that begins with the file's path if a file is damaged.
    """

    n_bytes: int
    """The size of all files."""

    written_for: str | None = None
    """The options in JSON that the arrays were written for, if the file contains them."""

    def path(self, name: str = "") -> str:
        """The file with the array `name`."""

    def names(self) -> Iterable[str]:
        """The names of all arrays."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; `None` if there is no such array."""

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, in blocks."""

    def check(self, layout: Layout) -> None:
        for name, parts in layout.items():
            (_, expected), found = stored(parts), self.shape(name)
            if found is None:
                raise self.wrong(name, "an array", "none")
            if found != expected:
                hint = ""
                if name == "char_embed" and found[:1] == (NUM_CHARACTERS,):
                    hint = "; the file has no row for padding, which readers add in front"
                shape = f"the shape {expected}, as the options say"
                raise self.wrong(name, shape, f"{found}{hint}")
        n_bytes = sum(part.nbytes for parts in layout.values() for part in parts)
        check_expansion(self.path(), n_bytes, self.n_bytes)
        for name in self.names():
            if name.startswith(OF_BILM) and name not in layout:
                raise self.wrong(name, "only arrays that the options describe", "this one too")

    def rows(self, name: str, dtype: torch.dtype) -> Iterator[Tensor]:
        for block in self.blocks(name):
            with np.errstate(over="ignore"):
                numbers = torch.from_numpy(block.astype(np.float32, copy=False))
            if not numbers.isfinite().all():
                raise self.wrong(name, "finite float32 numbers", "NaN or infinity")
            rows = numbers.to(dtype)
            # float16 rounds large numbers to others that are whole too.
            is_long = block.dtype.itemsize >= numbers.itemsize
            is_exact = dtype.is_floating_point or (is_long and torch.equal(rows.float(), numbers))
            if not is_exact:
                expected = f"whole numbers of the type {dtype} in float32"
                raise self.wrong(name, expected, f"others in {block.dtype}")
            yield rows

    def wrong(self, name: str, expected: str, found: object) -> InputError:
        """The error about an array, or about the file if `name` is empty."""
        place = f"{self.path(name)}: {name}" if name else self.path()
        return InputError(f"{place}: expected {expected}, found {found}")


def read_arrays(
    options: BiLMOptions,
    arrays: NamedArrays,
    vocabulary_file: str | os.PathLike | None,
    *,
    with_softmax: bool,
) -> FoundBiLM:
    """
    Read a biLM of these `options` and, if there is a `vocabulary_file` with its words, the softmax.
    They are also the words of a table, unless these are among the arrays, and then the same. The
    numbers may have any floating-point type. The warm state is read if there is one, and computed
    otherwise.

    Raises an `InputError` that names the file and the array if an array is missing, damaged or of
    another shape, contains NaN or infinity, or belongs to a layer that the options do not have; if
    the file was written for other options, or would become much larger in memory; or if the
    vocabulary has other words or is missing.
    """
    is_table = options.char_cnn is None
    with_softmax &= any(arrays.shape(name) is not None for name in SOFTMAX_ARRAYS)
    rows = None
    if vocabulary_file is not None and (is_table or with_softmax):
        rows = _rows(arrays, EMBEDDING if is_table else SOFTMAX_WEIGHT, vocabulary_file)
    options = _sized(options, arrays, rows)
    _check_options(options, arrays)
    with named(arrays.path()):
        n_words = len(rows.words) if rows is not None and with_softmax else None
        # Every array takes more than 100 bytes, which bounds the number of layers.
        bilm, softmax = meta_modules(options, n_words, arrays.n_bytes // 100)
    fill([bilm, softmax], partial(_layout, bilm, softmax, arrays, rows), arrays)
    tie(bilm, softmax)
    table, has_words = bilm.word_table, arrays.shape(WORDS) is not None
    if table is not None and rows is not None and not has_words:
        table.words.fill(rows.words)
    with named(arrays.path()):
        check_lexicon(bilm)
    if table is not None and rows is not None and has_words:
        if len(rows.runs) > 1 or table.words.words() != rows.words:
            expected = f"the words of the table in {arrays.path()}"
            raise InputError(f"{vocabulary_file}: expected {expected}, found others")
    if arrays.shape(WARM_STATE[0]) is None:
        bilm.warm_up()
    return FoundBiLM(bilm, softmax, None if rows is None else rows.words)


def _rows(arrays: NamedArrays, name: str, vocabulary_file: str | os.PathLike) -> SoftmaxRows:
    """The words of the rows of the array `name`."""
    shape = arrays.shape(name)
    if not shape:
        raise arrays.wrong(name, "an array", "none")
    return read_softmax_rows(vocabulary_file, shape[0], arrays.path(name))


def _sized(options: BiLMOptions, arrays: NamedArrays, rows: SoftmaxRows | None) -> BiLMOptions:
    """
    Options with the sizes of the words of a table, which those of bilm-tf and of configs lack: of
    the words among the arrays, or else in the vocabulary.
    """
    table, text = arrays.shape(EMBEDDING), arrays.shape(WORDS)
    if options.char_cnn is None and text is None:
        if rows is None:
            raise arrays.wrong("", "a vocabulary file with the words of its table", "none")
        return options.of_words(rows.words)
    if options.words is None or options.words.n_words or not table or not text:
        return options
    return replace(options, words=replace(options.words, n_words=table[0], n_bytes=text[0]))


def _check_options(options: BiLMOptions, arrays: NamedArrays) -> None:
    """Reject arrays that were written for other options. Only files written here record them."""
    text = arrays.written_for
    if text is None or text == json.dumps(options.to_dict()):
        return
    source = f"{arrays.path()}: {WRITTEN_FOR}"
    written = options_from_dict(parse_json(text, source, "an options file"), source=source)
    if difference := options.difference(written):
        key, expected, found = difference
        expected = f"weights for {key} {expected}, as the options say"
        raise arrays.wrong("", expected, f"weights that were written for {key} {found}")


def _layout(
    bilm: BiLM, softmax: SampledSoftmax | None, arrays: NamedArrays, rows: SoftmaxRows | None
) -> Layout:
    """
    The layout in a file, with its names and its order of words. The warm state is left out if the
    file lacks it, and the words of a table if they are in the vocabulary.
    """
    is_table = bilm.word_table is not None
    left_out = [*WARM_STATE] if arrays.shape(WARM_STATE[0]) is None else []
    if is_table and arrays.shape(WORDS) is None:
        left_out.append(WORDS)
    layout = {}
    for name, parts in array_views(bilm, softmax).items():
        if rows is not None and (name in SOFTMAX_ARRAYS or (is_table and name == EMBEDDING)):
            parts = [parts[0][run] for run in rows.runs]
        short = name.replace(FIRST_CELL, "")
        is_short = arrays.shape(name) is None and arrays.shape(short) is not None
        if name not in left_out:
            layout[short if is_short else name] = parts
    return layout
