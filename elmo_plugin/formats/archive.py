"""
Reads the archive of a `bilm`, or of a task model with an embedder `elmo`, without executing code
from it. AllenNLP's `load_archive`, in contrast, constructs any class that the archive's
`config.json` names.

The archive of a task model has the weights of the biLM among those of the model, and its options in
the vocabulary, where the embedder stores them (`plugin/token_embedders/options_in_vocabulary.py`).
"""

import logging
import re
from collections.abc import Iterable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import InputError, fail, shown
from elmo_plugin.files.torch_file import load_weights
from elmo_plugin.formats.allennlp_elmo import CHARACTERS
from elmo_plugin.formats.bilm_tf.texts import options_from_dict
from elmo_plugin.formats.fill import (
    Tensors,
    check_finite,
    check_lexicon,
    check_words,
    fill,
    meta_modules,
    own_names,
    tie,
)
from elmo_plugin.formats.format import Format, FoundBiLM
from elmo_plugin.formats.json_and_text import CONFIG, parse_json, read_json, read_text
from elmo_plugin.formats.mixes import TrainedMixes, mix_settings
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import SPECIAL_WORDS

WORDS = "vocabulary/words.txt"
WEIGHTS = ("weights.th", "best.th")
"""File names of the weights in an archive and in the folder of a training run."""

TABLE = "bilm.token_encoder.embedding.weight"
"""A table of words, whose weights a tied softmax shares."""

NAMESPACE = "elmo_options"
"""The namespace of the vocabulary with the options. Each entry is a word in it, in JSON."""
FILE = f"vocabulary/{NAMESPACE}.txt"

ENCODER = "bilm.token_encoder."
"""Part of the names of a biLM's weights, whatever its token encoder is."""

State = dict[str, Tensor]

logger = logging.getLogger(__name__)


def is_archive(path: Path) -> bool:
    """Whether `path` is a folder with the config of a model."""
    return (path / CONFIG).exists()


def read_archive(folder: Path, with_softmax: bool, part: str | None = None) -> FoundBiLM:
    """
    Read an unpacked archive, or the folder of a training run. Reading never executes code: only the
    block `model`, the vocabulary and the weights are read, and nothing that the archive names is
    imported or constructed. Of the block `model`, only the sizes of the biLM are checked here.

    `part`: in the archive of a task model, the name of the module that has the biLM, its last part,
    or the key of the embedder in `token_embedders`; required if there are several.

    Raises an `InputError` if the archive is damaged or contains no biLM.
    """
    parameters = read_json(folder / CONFIG, "a config").get("model")
    if not isinstance(parameters, dict):
        fail(CONFIG, "a block model", parameters)
    if parameters.get("type") != "bilm":
        return read_task(folder, parameters, part)
    if part is not None:
        raise InputError(f"expected no name after #, with a model of type bilm, found {part}")
    words, state = _read_words(folder), read_weights(folder)
    options = BiLMOptions.from_dict(parameters, source=f"{CONFIG}: model").of_words(words)
    bilm, softmax = meta_modules(options, len(words), most_layers=len(state))
    assert softmax is not None
    if options.is_tied:  # AllenNLP saves the weights under both names
        shared, table = state.pop("softmax.weight", None), state.get(TABLE)
        if shared is None or table is None or not torch.equal(shared, table):
            raise InputError(f"softmax.weight: expected that of {TABLE}, with tied, found another")
    modules = torch.nn.ModuleDict({"bilm": bilm, "softmax": softmax})
    wanted = softmax if with_softmax else None
    fill([bilm, wanted], partial(own_names, modules), Tensors(state, CONFIG))
    check_lexicon(modules)
    check_words(bilm, words, WORDS)
    tie(bilm, wanted)
    return FoundBiLM(bilm, wanted, words)


def _read_words(folder: Path) -> list[str]:
    words = re.split(r"\r?\n", read_text(folder / WORDS, "the words of a model"))
    words = words[:-1] if words[-1] == "" else words
    if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS or len(set(words)) < len(words):
        raise InputError(
            f"{WORDS}: expected each word once, and first {', '.join(SPECIAL_WORDS)}, found others"
        )
    return words


def read_weights(folder: Path) -> dict[str, Tensor]:
    """
    The weights in the folder of an archive. Raises an `InputError` if there are none, or if they
    are not plain tensors.
    """
    weights = next((folder / name for name in WEIGHTS if (folder / name).exists()), None)
    if weights is None:
        raise InputError(f"expected weights, {' or '.join(WEIGHTS)}, found none")
    return load_weights(weights)


def stored_options(entries: Iterable[str]) -> dict[str, BiLMOptions]:
    """
    The last stored options of each source, from entries in the order of their indices. Raises an
    `InputError` that names an entry that cannot be read.
    """
    stored = {}
    for entry in entries:
        if not entry.startswith("{"):
            continue  # padding and the unknown token
        try:
            content = parse_json(entry, "entry", "options")
            source, options = content["source"], content["options"]
            stored[source] = options_from_dict(options, source="the archive's vocabulary")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f'vocabulary, namespace "{NAMESPACE}": expected an entry of the token embedder '
                f'"elmo", found {shown(entry)} ({error})'
            ) from error
    return stored


def source_of(pretrained: Any, archive_file: Any, options_file: Any, weight_file: Any) -> str:
    """The name in an entry of the biLM that these parameters of the embedder name."""
    if pretrained is not None:
        return f"pretrained {pretrained}"
    return " ".join(str(x) for x in (archive_file, options_file, weight_file) if x is not None)


def read_task(folder: Path, parameters: dict[str, Any], embedder: str | None) -> FoundBiLM:
    """
    Read the biLM in the unpacked archive of a task model with these `parameters`, and its trained
    mixes if the config says how they were trained. Raises an `InputError` as `read_archive`.
    """
    state, kind = read_weights(folder), shown(parameters.get("type"))
    prefixes = _prefixes(state)
    name = _choose(list(prefixes), state, kind, embedder)
    prefix = prefixes[name]
    own = {k.removeprefix(prefix): x for k, x in state.items() if k.startswith(prefix)}
    of_bilm = {k: x for k, x in own.items() if k.startswith("bilm.")}
    block = _block(parameters, name, is_only=len(prefixes) == 1)
    if not (folder / FILE).exists():
        raise InputError(
            f"expected a model of type bilm, found {kind} with a biLM whose options are not in "
            f'{FILE}, where the token embedder "elmo" stores them'
        )
    stored = stored_options(read_text(folder / FILE, "the options of a biLM").split("\n"))
    bilm = _bilm(stored, block, of_bilm)
    modules = torch.nn.ModuleDict({"bilm": bilm})
    fill([bilm], partial(own_names, modules), Tensors(of_bilm, FILE, prefix))
    check_lexicon(modules)
    return FoundBiLM(bilm, mixes=_mixes(own, prefix, block))


def _prefixes(state: State) -> dict[str, str]:
    """
    The prefix before `bilm.` in the names of each biLM's weights, by the name of the module with
    the biLM, such as `text_field_embedder.token_embedder_elmo`. A biLM that the model has under
    two names, with the same tensors, counts once.
    """
    prefixes: dict[tuple[str, int], str] = {}
    for name, tensor in state.items():
        prefix, part, rest = name.rpartition(ENCODER)
        if part and (not prefix or prefix.endswith(".")):
            prefixes.setdefault((rest, tensor.data_ptr()), prefix)
    return {x.removesuffix("_elmo.").removesuffix(".") or "bilm": x for x in prefixes.values()}


def _choose(names: list[str], state: State, kind: str, embedder: str | None) -> str:
    """The name of the biLM that is the only one or, by this or by its ending, the `embedder`."""
    if not names:
        if any(name.endswith(CHARACTERS) for name in state):
            kind += (
                " with AllenNLP's own ELMo, whose options are not in the archive; AllenNLP "
                'loads it with the type "elmo" for that embedder, which can then save the biLM'
            )
        raise InputError(
            f'expected a model of type bilm, or one with a token embedder "elmo", found {kind}'
        )
    endings = f".{embedder}", f".token_embedder_{embedder}"
    found = [x for x in names if embedder in (None, x)]
    found = found or [x for x in names if f".{x}".endswith(endings)]
    if len(found) != 1:
        listed = ", ".join(names)
        raise InputError(
            f"expected the name of one of its biLMs after #, {listed}, found {embedder or 'none'}"
        )
    return found[0]


def _block(parameters: dict[str, Any], name: str, is_only: bool) -> dict[str, Any] | None:
    """The block of the embedder `name` in the config, if it is clear which one this is."""
    keys = [part.removeprefix("token_embedder_").removeprefix("_") for part in name.split(".")]
    blocks = list(_blocks(parameters))
    if is_only and len(blocks) == 1:
        return blocks[0][1]
    # AllenNLP calls the module of `token_embedders.KEY` `token_embedder_KEY`. A model may call the
    # modules around it otherwise than its parameters, so that not all keys need to be the same.
    n_same = [sum(key in keys for key in path) for path, _ in blocks]
    most = max(n_same, default=0)
    return blocks[n_same.index(most)][1] if most and n_same.count(most) == 1 else None


def _blocks(parameters: dict[str, Any]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """All embedders of type "elmo" in a config, with the keys that lead there."""
    pending: list[tuple[list[str], Any]] = [([], parameters)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            if value.get("type") == "elmo":
                yield path, value
            pending += (([*path, key], inner) for key, inner in value.items())
        elif isinstance(value, list):
            pending += (([*path, str(k)], inner) for k, inner in enumerate(value))


def _bilm(stored: dict[str, BiLMOptions], block: dict[str, Any] | None, state: State) -> BiLM:
    """A biLM of the stored options, without memory."""
    source = source_of(*((block or {}).get(key) for key in signature(source_of).parameters))
    different = {stored[source]} if source in stored else set(stored.values())
    bilms = [meta_modules(options, None, most_layers=len(state))[0] for options in different]
    if len(bilms) != 1:  # of the only one, `fill` says what differs
        shapes = {name.removeprefix("bilm."): x.shape for name, x in state.items()}
        bilms = [b for b in bilms if {n: x.shape for n, x in b.state_dict().items()} == shapes]
    if len(bilms) != 1:
        fail(FILE, "the options of one biLM of the weights' sizes", len(bilms))
    return bilms[0]


def _mixes(state: State, prefix: str, block: dict[str, Any] | None) -> TrainedMixes | None:
    mixes = {name: x for name, x in state.items() if name.startswith("scalar_mix_")}
    if not mixes:
        return None
    if block is None:
        unclear = f"{prefix}scalar_mix_0: {CONFIG} does not show which block is its embedder's"
        logger.warning(f"{unclear}, so the trained mixes are not loaded")
        return None
    for name, tensor in mixes.items():
        check_finite(prefix + name, tensor)
    source = f"{CONFIG}: the embedder elmo"
    return TrainedMixes(mixes, mix_settings(block, source), source)


ARCHIVE = Format(
    r"config\.json|(weights|best)\.th|(words|elmo_options)\.txt", is_archive, read_archive
)
