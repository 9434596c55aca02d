"""`options.json`: the sizes of a biLM as bilm-tf writes them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo_plugin.data.characters import NUM_CHARACTERS
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.options import BiLMOptions, OptionsError

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


def read_options(path: str | os.PathLike) -> BiLMOptions:
    """
    An options file, written for training (`n_characters` 261) or inference (262). What else stands
    in it is about a training run and ignored.

    # Raises

    `OptionsError`
        Naming the file and the key.
    """
    if not Path(path).is_file():
        found = "a folder" if Path(path).is_dir() else "no such file"
        raise OptionsError(f"{path}: expected an options file in JSON, found {found}")
    return parse_options(Path(path).read_bytes(), source=str(path))


def parse_options(text: bytes | str, source: str) -> BiLMOptions:
    try:
        options = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{source}: expected an options file in JSON, found {error}") from None
    return options_from_dict(options, source=source)


def options_from_dict(options: Mapping[str, Any], *, source: str) -> BiLMOptions:
    """`options`: what an options file holds. `source`: what an error calls it. As
    `read_options`."""
    if not isinstance(options, Mapping) or "lstm" not in options:
        raise OptionsError(f"{source}: expected a block lstm, found none")
    bidirectional = options.get("bidirectional", True)
    if bidirectional is not True:
        raise OptionsError(f"{source}: bidirectional: expected true, found {bidirectional!r}")
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
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(options_to_dict(options), indent=2) + "\n")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    block = dict(pairs)
    if len(block) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r} twice")
    return block


def _no_number(name: str) -> None:
    raise ValueError(f"{name}, which is not a number of JSON")


def _only(block: Any, keys: set[str]) -> Any:
    return {k: v for k, v in block.items() if k in keys} if isinstance(block, Mapping) else block
