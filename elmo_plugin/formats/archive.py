"""
Reads the archive of a `bilm` without executing code from it. AllenNLP's `load_archive`, in
contrast, constructs any class that the archive's `config.json` names.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import InputError, shown
from elmo_plugin.files.bounds import read_small_file
from elmo_plugin.formats.archive_files import (
    CONFIG,
    GZIP_MAGIC,
    MOST_BYTES,
    WORDS,
    opened_archive,
    read_weights,
)
from elmo_plugin.formats.found import FoundBiLM, allocate, meta_modules
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.special_words import SPECIAL_WORDS


def is_archive(path: Path) -> bool:
    """Whether `path` is a gzip file, or a folder with the config of a model."""
    if path.is_dir():
        return (path / CONFIG).exists()
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def read_archive(
    archive_file: str | os.PathLike, vocabulary_file: str | None, with_softmax: bool
) -> FoundBiLM:
    """
    Read an archive, or the folder of a training run. Reading never executes code: only the block
    `model`, the vocabulary and the weights are read, and nothing that the archive names is imported
    or constructed. Of the block `model`, only the sizes of the biLM are checked here.

    Raises an `InputError`, which begins with the archive's path, if the archive is damaged, has
    members outside its own folder, or contains another kind of model, or if there is a
    `vocabulary_file`; and a `DiskFullError` if the disk has no space to unpack it.
    """
    if vocabulary_file is not None:
        raise InputError(
            f"{archive_file}: expected no vocabulary file with an archive, which has its own "
            f"words, found {vocabulary_file}"
        )
    with opened_archive(archive_file) as folder:
        return _read_folder(folder, with_softmax)


def _read_folder(folder: Path, with_softmax: bool) -> FoundBiLM:
    parameters = _read_parameters(folder)
    words = re.split(r"\r?\n", _read_text(folder, WORDS))
    words = words[:-1] if words[-1] == "" else words
    if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS or len(set(words)) < len(words):
        raise InputError(
            f"{WORDS}: expected each word once, and first {', '.join(SPECIAL_WORDS)}, found others"
        )
    state = read_weights(folder)
    bilm, softmax = _checked_modules(parameters, words, state)
    wanted = {"bilm": bilm, "softmax": softmax} if with_softmax else {"bilm": bilm}
    modules = torch.nn.ModuleDict(wanted)
    allocate(modules)
    modules.load_state_dict(state, strict=with_softmax)  # the names have been checked
    if bilm.options.words is not None and bilm.token_encoder.words.words() != words:
        raise InputError(f"{WORDS}: expected the words of the weights, found others")
    return FoundBiLM(bilm, softmax if with_softmax else None, words, parameters)


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
    return block


def _checked_modules(
    parameters: dict[str, Any], words: list[str], state: dict[str, Tensor]
) -> tuple[BiLM, SampledSoftmax]:
    """
    Compare the config's sizes with the weights before allocating memory, check that the weights are
    finite, and return the modules, without memory.
    """
    options = BiLMOptions.from_dict(parameters, source=f"{CONFIG}: model").of_words(words)
    bilm, softmax = meta_modules(options, len(words), most_layers=len(state))
    assert softmax is not None
    expected = torch.nn.ModuleDict({"bilm": bilm, "softmax": softmax}).state_dict()
    # In float32, as weights are trained and stored, whatever PyTorch's default type is.
    expected = {n: x.float() if x.is_floating_point() else x for n, x in expected.items()}
    for name in sorted(expected.keys() | state.keys()):
        one, other = (_described(tensors.get(name)) for tensors in (expected, state))
        if one != other:
            raise InputError(f"{name}: expected {one}, as the sizes in {CONFIG} say, found {other}")
        if not torch.isfinite(state[name]).all():
            raise InputError(f"{name}: expected finite numbers, found NaN or infinity")
    if options.words is not None and options.words.tied:
        tied = [state["softmax.weight"], state["bilm.token_encoder.embedding.weight"]]
        if not torch.equal(*tied):
            raise InputError("softmax.weight: expected that of the tied table, found another")
        state = {name: x for name, x in state.items() if name != "softmax.weight"}
    # Views that share stored numbers would take more memory in a model than in the file.
    storages = (x.untyped_storage() for x in state.values())
    stored = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    if (size := sum(x.nbytes for x in state.values())) > stored:
        raise InputError(
            f"expected weights of {size:,} bytes, each stored by itself, found {stored:,} bytes"
        )
    return bilm, softmax


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no tensor"
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
