"""`options.json`: the options of a biLM as bilm-tf writes them."""

import json
import os
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError
from elmo_plugin.formats.json_file import read_json
from elmo_plugin.options import BLOCKS, BiLMOptions

N_WORDS, TIED = "n_tokens_vocab", "share_embedding_softmax"
"""bilm-tf's keys of a model without `char_cnn`, which reads words from a table."""


def read_options(path: str | os.PathLike) -> BiLMOptions:
    """
    Read an options file for training (`n_characters` 261) or for inference (262). Keys that only
    training needs are ignored. Raises an `InputError` that names the file and the key if the file
    or one of its values is invalid.
    """
    return options_from_dict(read_json(path, "an options file"), source=str(path))


def options_from_dict(options: Mapping[str, Any], *, source: str) -> BiLMOptions:
    """Read the contents of an options file; `source` is its name in error messages."""
    bidirectional = options.get("bidirectional", True)
    if bidirectional is not True:
        raise InputError(f"{source}: bidirectional: expected true, found {bidirectional!r}")
    known = {key: _known_keys(options.get(key), block) for key, block in BLOCKS.items()}
    if known["char_cnn"] is None and known["words"] is None and N_WORDS in options:
        size = known["lstm"].get("projection_dim") if isinstance(known["lstm"], Mapping) else None
        known["words"] = {"dim": size, "tied": options.get(TIED) or False}
    return BiLMOptions.from_dict(known, source=source)


def write_options(options: BiLMOptions, path: str | os.PathLike) -> None:
    """Write an options file for inference."""
    blocks: dict[str, Any] = options.to_dict()
    if options.char_cnn is None and options.words is not None:
        blocks.update({N_WORDS: options.words.n_words, TIED: options.words.tied})
    Path(path).write_text(json.dumps(blocks, indent=2) + "\n")


def _known_keys(block: Any, options: type) -> Any:
    if not isinstance(block, Mapping):
        return block
    keys = signature(options).parameters
    return {key: value for key, value in block.items() if key in keys}
