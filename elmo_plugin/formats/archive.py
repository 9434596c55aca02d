"""
Reads the archive of a `bilm` without executing code from it. AllenNLP's `load_archive`, in
contrast, constructs any class that the archive's `config.json` names.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.bounds import read_small_file
from elmo_plugin.formats.archive_files import (
    CONFIG,
    MOST_BYTES,
    WORDS,
    opened_archive,
    read_weights,
)
from elmo_plugin.formats.meta_modules import meta_modules
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.special_words import SPECIAL_WORDS

PARAMETERS = (
    "lstm",
    "char_cnn",
    "dropout",
    "n_negative_samples",
    "initial_state",
    "precision",
    "sparse_gradients",
)
"""Keys that the block `model` may have; options and model check their values."""

TRAINING_ONLY = (
    "type",
    "regularizer",
    "ddp_accelerator",
    "pretrained_file",
    "pretrained_vocabulary_file",
)
"""Keys of the block `model` that a trained model does not need. Their values are not read."""


class Archive(NamedTuple):
    """
    Contents of an archive, checked against each other: the model's parameters except the
    vocabulary, the sizes of the biLM, the words of the softmax, and the weights of the biLM (names
    with the prefix `bilm.`) and of the softmax (prefix `softmax.`).
    """

    parameters: dict[str, Any]
    options: BiLMOptions
    words: list[str]
    state: dict[str, Tensor]

    def weights(self, module: str) -> dict[str, Tensor]:
        """The weights of `bilm` or `softmax`, without the prefix."""
        prefix = f"{module}."
        return {
            name.removeprefix(prefix): x
            for name, x in self.state.items()
            if name.startswith(prefix)
        }


def read_archive(archive_file: str | os.PathLike) -> Archive:
    """
    Read an archive, or the folder of a training run. Reading never executes code: only the block
    `model`, the vocabulary and the weights are read, and nothing that the archive names is imported
    or constructed.

    Raises an `InputError`, which begins with the archive's path, if the archive is damaged, has
    members outside its own folder, or contains another kind of model; and a `DiskFullError` if the
    disk has no space to unpack it.
    """
    with opened_archive(archive_file) as folder:
        return _read_folder(folder)


def _read_folder(folder: Path) -> Archive:
    if not (folder / CONFIG).exists():
        if any(folder.glob("*options.json")):
            raise InputError(
                f"expected {CONFIG} of a trained bilm, found options.json of bilm-tf; the command "
                "bilm-import makes an archive of bilm-tf's files"
            )
        raise InputError(
            f"expected {CONFIG} of a trained bilm, or options.json and an HDF5 file of bilm-tf, "
            "found none of them"
        )
    parameters = _read_parameters(folder)
    words = re.split(r"\r?\n", _read_text(folder, WORDS))
    words = words[:-1] if words[-1] == "" else words
    if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS or len(set(words)) < len(words):
        raise InputError(
            f"{WORDS}: expected each word once, and first {', '.join(SPECIAL_WORDS)}, found others"
        )
    state = read_weights(folder)
    options = _checked_options(parameters, len(words), state)
    return Archive(parameters, options, words, state)


def _read_text(folder: Path, name: str) -> str:
    if not (folder / name).exists():
        raise InputError(f"expected a file {name}, found none")
    try:
        return read_small_file(folder / name, MOST_BYTES[name], "a file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: expected UTF-8, found {error}") from error


def _read_parameters(folder: Path) -> dict[str, Any]:
    """Read the model's parameters from a `config.json`, which AllenNLP writes as JSON."""
    text = _read_text(folder, CONFIG)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{CONFIG}: expected JSON, found {error}") from error
    block = config.get("model") if isinstance(config, dict) else None
    if not isinstance(block, dict) or block.get("type") != "bilm":
        kind = block.get("type") if isinstance(block, dict) else block
        raise InputError(f"expected a model of type bilm, found {shown(kind)}")
    parameters = {}
    for key, value in block.items():
        if key in TRAINING_ONLY:
            continue
        if key not in PARAMETERS:
            raise InputError(
                f"{CONFIG}: model: expected keys among {', '.join(PARAMETERS)}, found {shown(key)}"
            )
        parameters[key] = value
    return parameters


def _checked_options(
    parameters: dict[str, Any], n_words: int, state: dict[str, Tensor]
) -> BiLMOptions:
    """
    Compare the config's sizes with the weights before allocating memory, check that the weights are
    finite, and return the options.
    """
    options = BiLMOptions.from_dict(parameters, source=f"{CONFIG}: model")
    bilm, softmax = meta_modules(options, n_words, most_layers=len(state))
    assert softmax is not None
    # In float32, as weights are trained and stored, whatever PyTorch's default type is.
    expected = torch.nn.ModuleDict({"bilm": bilm, "softmax": softmax}).float().state_dict()
    for name in sorted(expected.keys() | state.keys()):
        one, other = (_described(tensors.get(name)) for tensors in (expected, state))
        if one != other:
            raise InputError(f"{name}: expected {one}, as the sizes in {CONFIG} say, found {other}")
        if not torch.isfinite(state[name]).all():
            raise InputError(f"{name}: expected finite numbers, found NaN or infinity")
    # Views that share stored numbers would take more memory in a model than in the file.
    storages = (x.untyped_storage() for x in state.values())
    stored = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    if (size := sum(x.nbytes for x in state.values())) > stored:
        raise InputError(
            f"expected weights of {size:,} bytes, each stored by itself, found {stored:,} bytes"
        )
    return options


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no tensor"
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
