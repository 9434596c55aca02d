"""
Reads the archive of a `bilm`, or of a task model with an embedder `elmo`, without executing code
from it. AllenNLP's `load_archive`, in contrast, constructs any class that the archive's
`config.json` names.
"""

import re
from pathlib import Path

import torch

from elmo_plugin.checks import InputError, shown
from elmo_plugin.formats.archive_files import CONFIG, WORDS, read_text, read_weights
from elmo_plugin.formats.found import (
    FoundBiLM,
    check_state,
    check_words,
    load_state,
    meta_modules,
    tie,
)
from elmo_plugin.formats.json_file import read_json
from elmo_plugin.formats.task_archive import read_task
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.special_words import SPECIAL_WORDS

TABLE = "bilm.token_encoder.embedding.weight"
"""A table of words, whose weights a tied softmax shares."""


def is_archive(path: Path) -> bool:
    """Whether `path` is a folder with the config of a model."""
    return (path / CONFIG).exists()


def read_archive(folder: Path, with_softmax: bool, part: str | None = None) -> FoundBiLM:
    """
    Read an unpacked archive, or the folder of a training run. Reading never executes code: only the
    block `model`, the vocabulary and the weights are read, and nothing that the archive names is
    imported or constructed. Of the block `model`, only the sizes of the biLM are checked here.

    `part`: in the archive of a task model, the name of the module that has the biLM; required if
    there are several.

    Raises an `InputError` if the archive is damaged or contains no biLM.
    """
    parameters = read_json(folder / CONFIG, "a config").get("model")
    if not isinstance(parameters, dict):
        raise InputError(f"{CONFIG}: expected a block model, found {shown(parameters)}")
    if parameters.get("type") != "bilm":
        return read_task(folder, parameters, part)
    if part is not None:
        raise InputError(f"expected no name after #, with a model of type bilm, found {part}")
    words = re.split(r"\r?\n", read_text(folder / WORDS, "the words of a model"))
    words = words[:-1] if words[-1] == "" else words
    if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS or len(set(words)) < len(words):
        raise InputError(
            f"{WORDS}: expected each word once, and first {', '.join(SPECIAL_WORDS)}, found others"
        )
    state = read_weights(folder)
    options = BiLMOptions.from_dict(parameters, source=f"{CONFIG}: model").of_words(words)
    bilm, softmax = meta_modules(options, len(words), most_layers=len(state))
    assert softmax is not None
    if options.is_tied:  # AllenNLP saves the weights under both names
        shared, table = state.pop("softmax.weight", None), state.get(TABLE)
        if shared is None or table is None or not torch.equal(shared, table):
            raise InputError(f"softmax.weight: expected that of {TABLE}, with tied, found another")
    modules = torch.nn.ModuleDict({"bilm": bilm, "softmax": softmax})
    if not with_softmax:
        unread = torch.nn.ModuleDict({"softmax": modules.pop("softmax")})
        others = {name: state.pop(name) for name in list(state) if not name.startswith("bilm.")}
        check_state(unread.state_dict(), others, CONFIG)
    load_state(modules, state, CONFIG)
    check_words(bilm, words, WORDS)
    if with_softmax:
        tie(bilm, softmax)
    return FoundBiLM(bilm, softmax if with_softmax else None, words)
