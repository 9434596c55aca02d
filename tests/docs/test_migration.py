"""The tables of the migration pages, option by option."""

import argparse
import inspect
import re
from typing import Any

import pytest
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.modules.elmo import Elmo as AllenNLPElmo
from allennlp.modules.token_embedders import ElmoTokenEmbedder

from elmo_plugin import Elmo
from elmo_plugin.commands import elmo as elmo_command
from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.docs.configs import evaluate
from tests.docs.pages import ROOT

FILES = ("options_file", "weight_file")
TRAIN_ELMO = {
    "bidirectional": True,
    "char_cnn.activation": "relu",
    "char_cnn.embedding.dim": 16,
    "char_cnn.filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
    "char_cnn.max_characters_per_token": 50,
    "char_cnn.n_characters": 261,
    "char_cnn.n_highway": 2,
    "dropout": 0.1,
    "lstm.cell_clip": 3,
    "lstm.dim": 4096,
    "lstm.n_layers": 2,
    "lstm.proj_clip": 3,
    "lstm.projection_dim": 512,
    "lstm.use_skip_connections": True,
    "all_clip_norm_val": 10.0,
    "n_epochs": 10,
    "n_train_tokens": 768648884,
    "batch_size": 3 * 128,
    "n_tokens_vocab": 793471,
    "unroll_steps": 20,
    "n_negative_samples_batch": 8192,
}

OPTIONS_OF_0_9 = {
    *("--all", "--top", "--average", "--vocab-path", "--options-file", "--weight-file"),
    *("--batch-size", "--file-friendly-logging", "--cuda-device", "--forget-sentences"),
    "--use-sentence-keys",
}

MIGRATION = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("migration_*.md"))


def rows(header: str) -> list[list[str]]:
    """The cells of the table of the migration pages whose first cell is `header`."""
    table = MIGRATION.partition(f"| {header} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def names(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize(
    "header, theirs, ours",
    [
        ("`elmo_token_embedder`", ElmoTokenEmbedder, ElmoEmbedder),
        ("`elmo_characters`", ELMoTokenCharactersIndexer, ElmoTokenIndexer),
        ("AllenNLP's `Elmo` in Python", AllenNLPElmo, None),
    ],
)
def test_migration_lists_each_parameter_of_allennlp(header: str, theirs: type, ours: Any) -> None:
    """The expected parameters are those of AllenNLP's constructor and of this package's."""
    table = rows(header)
    assert [name for row in table for name in names(row[:1])] == list(parameters(theirs))
    known = {*(parameters(ours) if ours else FILES), *parameters(Elmo)}
    for row in table:
        if not row[1].startswith("not needed"):
            assert names(row[1:2])[0] in known


def parameters(function: type) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_migration_of_the_training_options_of_bilm_tf() -> None:
    """The options and values are those of bilm-tf's `bin/train_elmo.py`. `bilm_1b.jsonnet` has the
    same values under the keys of the table, but the number of words and rows, which in bilm-tf are
    those of its example and of one of three GPUs."""
    code = (ROOT / "training_configs" / "bilm_1b.jsonnet").read_text()
    config = evaluate(code, ROOT / "training_configs", BILM_TEXT="text")
    table = {names(row[:1])[0]: row[1] for row in rows("option of `bin/train_elmo.py`")}
    for option, value in TRAIN_ELMO.items():
        key = table[option]
        if key.startswith("none"):
            continue
        found: Any = config
        for part in names([key])[0].split("."):
            found = found[part]
        assert found == value, option


def test_migration_of_the_options_of_allennlp_0_9() -> None:
    """The expected options are those of AllenNLP 0.9's `allennlp elmo --help`. An option that is
    the same is one of the command here."""
    table = rows("`allennlp elmo` in 0.9")
    theirs = {name for row in table for name in names(row[:1])}
    assert theirs == OPTIONS_OF_0_9
    parser = argparse.ArgumentParser()
    elmo_command.add_arguments(parser)
    ours = {option for action in parser._actions for option in action.option_strings}
    for row in table:
        if not row[1].startswith("not needed"):
            assert set(names(row[:1])) <= ours
        assert set(names(row[1:])) <= ours
