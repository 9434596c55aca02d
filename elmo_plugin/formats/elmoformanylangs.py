"""
Reads the folder of a model of ELMoForManyLangs (Che et al. 2018). Its names appear only here.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import InputError, check_path, fail
from elmo_plugin.files.torch_file import load_weights
from elmo_plugin.formats.allennlp_elmo import as_our_equations, common_layout
from elmo_plugin.formats.fill import Layout, Tensors, check_lexicon, fill, meta_modules
from elmo_plugin.formats.format import Format, FoundBiLM
from elmo_plugin.formats.json_and_text import CONFIG, read_json, read_text
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.lexicon import CodePoints
from elmo_plugin.modules.token_encoder import UNKNOWN_OF_LEXICON
from elmo_plugin.options import BiLMOptions

KIND = "a config"
ENCODER, TOKEN_EMBEDDER = "encoder.pkl", "token_embedder.pkl"
CHARACTERS, WORDS = "char.dic", "word.dic"
CHARACTER_TABLE, WORD_TABLE = (f"{kind}_emb_layer.embedding.weight" for kind in ("char", "word"))

LSTM = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip")
"""Keys of the block `encoder` that are our options."""

MARKS = ("<eow>", "<bow>", "<bos>", "<eos>", "<oov>", "<pad>")
"""Entries of the lexicon in the order of `CodePoints.marks`. A word is between `<eow>` and `<bow>`:
ELMoForManyLangs swaps these two, in training too."""

STRIPPED = "\u3000"
"""The one entry of a lexicon that is whitespace: of its line, stripped, only the id is left."""

PUBLISHED_CONFIG = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
PUBLISHED_NAMES = ("cnn_0_100_512_4096_sample.json", "cnn_50_100_512_4096_sample.json")
"""Two files of ELMoForManyLangs with this content, which published models name but do not have."""


def is_elmoformanylangs(path: Path) -> bool:
    """Whether `path` is a folder with one of the two files of weights."""
    return any((path / name).is_file() for name in (ENCODER, TOKEN_EMBEDDER))


@torch.no_grad()
def read_elmoformanylangs(path: Path, with_softmax: bool = False) -> FoundBiLM:
    """
    Read a model without executing code. Its softmax, if the folder has one, is not read.

    Raises an `InputError` that names the file if one is missing, damaged or of another kind of
    model.
    """
    weights: dict[str, Tensor] = {}
    for file in (path / TOKEN_EMBEDDER, path / ENCODER):
        if not file.is_file():
            raise InputError(f"{file}: expected a file of weights, found none")
        weights.update(load_weights(file, may_be_old=True))
    options, words = _options(path, weights)
    bilm, _ = meta_modules(options, None, most_layers=len(weights))
    fill([bilm], partial(_layout, bilm), Tensors(weights, CONFIG))
    as_our_equations(bilm)
    encoder = bilm.token_encoder
    _fill_lexicon(path / CHARACTERS, encoder.code_points)
    if encoder.table is not None:
        encoder.table.words.fill(words)
    check_lexicon(bilm)
    bilm.warm_up()
    return FoundBiLM(bilm)


def _options(path: Path, weights: dict[str, Tensor]) -> tuple[BiLMOptions, list[str]]:
    """The options of a model, and the words of its table, if it has one."""
    file, config = _config(path)
    lstm = _block(file, config, "encoder", "elmo")
    encoder = _block(file, config, "token_embedder", "cnn")
    has_words = encoder.get("word_dim") != 0
    words = _words(path / WORDS, _n_rows(weights, WORD_TABLE)) if has_words else []
    blocks: dict[str, Any] = {
        "lstm": {**{key: lstm.get(key) for key in LSTM}, "use_skip_connections": True},
        "char_cnn": {
            **{key: encoder.get(key) for key in ("filters", "n_highway", "activation")},
            "embedding": {"dim": encoder.get("char_dim")},
            "max_characters_per_token": encoder.get("max_characters_per_token"),
            "n_code_points": _n_rows(weights, CHARACTER_TABLE),
        },
        "words": {"dim": encoder.get("word_dim")} if has_words else None,
    }
    options = BiLMOptions.from_dict(blocks, source=str(file)).of_words(words)
    if options.lstm.dim == options.lstm.projection_dim:
        fail(f"{file}: encoder.dim", "another than projection_dim", options.lstm.dim)
    return options, words


def _block(file: Path, config: dict[str, Any], key: str, kind: str) -> dict[str, Any]:
    """A block of the file of sizes, which must have this `kind`."""
    block = config.get(key)
    if not isinstance(block, dict) or block.get("name") != kind:
        name = block.get("name") if isinstance(block, dict) else block
        fail(f"{file}: {key}.name", f'"{kind}"', name)
    return block


def _words(file: Path, n_rows: int) -> list[str]:
    """
    The words of a table's rows. Their program loads rows without a word too: those of words that it
    strips from a line. They get names that no token has.
    """
    numbers = _lexicon(file, n_rows)
    _check_entry(file, numbers, UNKNOWN_OF_LEXICON)
    words = [f"(row\u00a0{k})" for k in range(n_rows)]
    for word, number in numbers.items():
        words[number] = word
    return words


def _n_rows(weights: dict[str, Tensor], name: str) -> int:
    shape = weights[name].shape if name in weights else ()
    return shape[0] if shape else 0


def _config(path: Path) -> tuple[Path, dict[str, Any]]:
    """The file of sizes that `config.json` names, and its content."""
    sizes: Any = read_json(path / CONFIG, KIND).get("config_path")
    check_path(f"{path / CONFIG}: config_path", sizes)
    for file in (path / sizes, path / Path(sizes).name):
        if file.is_file():
            return file, read_json(file, KIND)
    if Path(sizes).name in PUBLISHED_NAMES:
        return path / Path(sizes).name, PUBLISHED_CONFIG
    raise InputError(
        f"{path / CONFIG}: config_path: expected a file of sizes there or in the folder, found "
        f"none at {sizes}"
    )


def _lexicon(file: Path, n_rows: int) -> dict[str, int]:
    """The number of each entry of a lexicon: below `n_rows`, the rows of its table."""
    text = read_text(file, "a lexicon")
    numbers = {}
    for line, content in enumerate(text.removesuffix("\n").split("\n"), start=1):
        entry, _, number = content.strip().rpartition("\t")
        # Python does not convert thousands of digits.
        if not re.fullmatch("[0-9]{1,10}", number) or int(number) >= n_rows:
            expected = f"an entry, a tab and a number below {n_rows}, the rows of its table"
            fail(f"{file}, line {line}", expected, content)
        numbers[entry or STRIPPED] = int(number)
    if len(set(numbers.values())) < len(numbers):
        raise InputError(f"{file}: expected a number of its own for each entry, found one twice")
    return numbers


def _fill_lexicon(file: Path, code_points: CodePoints) -> None:
    numbers = _lexicon(file, len(code_points.code_points))
    for k, mark in enumerate(MARKS):
        _check_entry(file, numbers, mark)
        code_points.marks[k] = numbers[mark]
    code_points.code_points.fill_(-1)
    for entry, number in numbers.items():
        if len(entry) == 1:  # longer ones, such as the marks, are no character of a word
            code_points.code_points[number] = ord(entry)


def _check_entry(file: Path, numbers: dict[str, int], entry: str) -> None:
    if entry not in numbers:
        raise InputError(f"{file}: expected an entry {entry}, found none")


def _layout(bilm: BiLM) -> Layout:
    layout = common_layout(
        bilm,
        convolution="convolutions.",
        highway="highways._layers.",
        projection="projection",
        lstm="",
    )
    encoder = bilm.token_encoder
    # Row 0 means "no word here", and the file does not contain it.
    layout[CHARACTER_TABLE] = [encoder.characters.char_embedding.weight[1:]]
    if encoder.table is not None:
        layout[WORD_TABLE] = [encoder.table.embedding.weight]
    return layout


# The config names one more file, of any name that ends in .json.
ELMOFORMANYLANGS = Format(
    r"(encoder|token_embedder)\.pkl|(char|word)\.dic|config\.json",
    is_elmoformanylangs,
    read_elmoformanylangs,
)
