"""
bilm-tf's files, both ways: `options.json`, and the weights in HDF5. The only file that knows their
names. What is read are numbers; nothing in either file can run code.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from elmo_plugin.data.characters import BEGIN_TOKEN, END_TOKEN, NUM_CHARACTERS
from elmo_plugin.modules import BiLM, CharCNN, LSTMState, SampledSoftmax
from elmo_plugin.modules.warm_state import warm_up
from elmo_plugin.options import BiLMOptions, OptionsError, build_bilm
from elmo_plugin.whole_file import HDF5Bytes, whole_file

LSTM_KEYS = {
    "cell_clip",
    "dim",
    "n_layers",
    "proj_clip",
    "projection_dim",
    "use_skip_connections",
}
CHAR_CNN_KEYS = {
    "activation",
    "embedding",
    "filters",
    "max_characters_per_token",
    "n_characters",
    "n_highway",
}


class WeightsError(ValueError):
    """Something is wrong with a weight file; the message names the file, the key and what is."""


def table(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    The format, as one table: from the name of each array in the file to views of our parameters
    which, one below the other, are that array. To read is to copy into the views, to write is to
    copy out of them.
    """
    views: dict[str, list[Tensor]] = {}
    encoder = bilm.token_encoder
    if isinstance(encoder, CharCNN):
        # Row 0 of ours is "no word here", which the file does not have.
        views["char_embed"] = [encoder.char_embedding.weight[1:]]
        for i, conv in enumerate(encoder.convolutions):
            views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]  # (1, w, c, n)
            views[f"CNN/b_cnn_{i}"] = [conv.bias]
        for k, highway in enumerate(encoder.highways):
            for gate in ("carry", "transform"):
                linear = getattr(highway, gate)
                views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.T]
                views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
        if encoder.projection is not None:
            views["CNN_proj/W_proj"] = [encoder.projection.weight.T]
            views["CNN_proj/b_proj"] = [encoder.projection.bias]
    else:
        views["embedding"] = [encoder.embedding.weight[1:]]
    for k, layer in enumerate(bilm.bilstm.layers):
        for d in (0, 1):  # forward, backward
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[d], layer.recurrent_weight[d]]
            views[f"{cell}/B"] = [layer.bias[d]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[d]]
    if softmax is not None:
        views["softmax/W"] = [softmax.weight]
        views["softmax/b"] = [softmax.bias]
    return {name: [view.detach() for view in parts] for name, parts in views.items()}


def read_options(path: str | os.PathLike) -> BiLMOptions:
    """
    An options file, written for training (`n_characters` 261) or inference (262). What else stands
    in it is about a training run and ignored.

    # Raises

    `OptionsError`
        Naming the file and the key.
    """
    try:
        options = json.loads(Path(path).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise OptionsError(f"{path}: expected an options file in JSON, found {error}") from None
    return options_from_dict(options, source=str(path))


def options_from_dict(options: Mapping[str, Any], *, source: str) -> BiLMOptions:
    """`options`: what an options file holds. `source`: what an error calls it. As
    `read_options`."""
    if not isinstance(options, Mapping) or "lstm" not in options:
        raise OptionsError(f"{source}: expected a block lstm, found none")
    lstm, char_cnn = options["lstm"], options.get("char_cnn")
    return BiLMOptions.from_blocks(
        _only(lstm, LSTM_KEYS),
        _only(char_cnn, CHAR_CNN_KEYS) if char_cnn is not None else None,
        n_words=options.get("n_tokens_vocab"),
        source=source,
    )


def options_to_dict(options: BiLMOptions) -> dict[str, Any]:
    """What an options file for inference holds."""
    lstm, char_cnn = options.lstm, options.char_cnn
    blocks: dict[str, Any] = {"lstm": {key: getattr(lstm, key) for key in sorted(LSTM_KEYS)}}
    if char_cnn is None:
        return blocks | {"n_tokens_vocab": options.n_words}
    blocks["char_cnn"] = {
        "activation": char_cnn.activation,
        "embedding": {"dim": char_cnn.embedding_dim},
        "filters": [list(pair) for pair in char_cnn.filters],
        "max_characters_per_token": char_cnn.max_characters_per_token,
        "n_characters": NUM_CHARACTERS,
        "n_highway": char_cnn.n_highway,
    }
    return blocks


def write_options(options: BiLMOptions, path: str | os.PathLike) -> None:
    """Writes an options file for inference, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(options_to_dict(options), indent=2) + "\n")


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

    `OptionsError`, `WeightsError`
        Naming the file, the key, and what was expected and found.
    """
    options = read_options(options_file)
    if token_embedding_file is None:
        bilm = build_bilm(options)
        read_weights(bilm, weight_file)
        return bilm
    if vocabulary_file is None:
        raise WeightsError(
            f"{token_embedding_file}: expected its vocabulary's file too, found none"
        )
    words = Path(vocabulary_file).read_text(encoding="utf-8").split()
    for boundary in (BEGIN_TOKEN, END_TOKEN):
        if boundary not in words:
            raise WeightsError(
                f"{vocabulary_file}: expected the word {boundary}, found no such line"
            )
    bilm = build_bilm(replace(options, char_cnn=None, n_words=len(words)))
    numbers = [words.index(boundary) + 1 for boundary in (BEGIN_TOKEN, END_TOKEN)]
    bilm.boundaries.copy_(torch.tensor(numbers))
    read_weights(bilm, weight_file, token_embedding_file=token_embedding_file)
    return bilm


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

    `WeightsError`
        For a file that is no HDF5, an array that is missing, of another shape, or not finite.
    """
    views = table(bilm, softmax)
    with _open(path) as file:
        words = views.pop("embedding", None) if token_embedding_file is not None else None
        arrays = {name: _read(file, path, name, parts) for name, parts in views.items()}
        warm = None
        if "warm_state/memory" in file:
            one_row = [bilm.warm_state.memory], [bilm.warm_state.output]
            warm = LSTMState(
                _read(file, path, "warm_state/memory", one_row[0]),
                _read(file, path, "warm_state/output", one_row[1]),
            )
    if words is not None and token_embedding_file is not None:
        with _open(token_embedding_file) as file:
            arrays["embedding"] = _read(file, token_embedding_file, "embedding", words)
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

    # Raises

    `DiskFullError`
        If there is no space for the file.
    """
    arrays = table(bilm, softmax)
    arrays["warm_state/memory"] = [bilm.warm_state.memory]
    arrays["warm_state/output"] = [bilm.warm_state.output]
    with (
        whole_file(path) as temporary,
        HDF5Bytes(temporary) as disk,
        h5py.File(disk, "w") as file,
    ):
        for name, parts in arrays.items():
            file[name] = torch.cat([part.to("cpu", dtype) for part in parts]).numpy()
            disk.check()


def has_softmax(path: str | os.PathLike) -> bool:
    """Whether a weight file holds the softmax, which bilm-tf itself leaves out."""
    with _open(path) as file:
        return "softmax/W" in file


def _read(file: h5py.File, path: str | os.PathLike, name: str, parts: list[Tensor]) -> Tensor:
    """The array `name`, checked against the views that it is to fill."""
    if name not in file:
        # bilm-tf names the one cell of a one-layer model without the cells' common level.
        name = name.replace("MultiRNNCell/Cell0/", "")
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise WeightsError(f"{path}: {name}: expected an array, found none")
    expected = (sum(len(part) for part in parts), *parts[0].shape[1:])
    if found.shape != expected:
        hint = ""
        if name == "char_embed" and found.shape[:1] == (NUM_CHARACTERS,):
            hint = "; the file has no row for padding, which readers add in front"
        raise WeightsError(
            f"{path}: {name}: the options ask for the shape {expected}, found {found.shape}{hint}"
        )
    try:
        array = torch.from_numpy(found[()].astype("float32"))
    except (OSError, ValueError, TypeError) as error:
        raise WeightsError(f"{path}: {name}: expected numbers, found {error}") from None
    if not bool(torch.isfinite(array).all()):
        raise WeightsError(f"{path}: {name}: expected finite numbers, found NaN or infinity")
    return array


@contextmanager
def _open(path: str | os.PathLike) -> Iterator[h5py.File]:
    if not Path(path).is_file():
        raise WeightsError(f"{path}: expected a weight file, found no such file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise WeightsError(f"{path}: expected a whole HDF5 file, found {error}") from None
    with file:
        yield file


def _only(block: Any, keys: set[str]) -> Any:
    return {k: v for k, v in block.items() if k in keys} if isinstance(block, Mapping) else block
