"""The tables of a model card."""

import sys

from elmo_plugin.text import corpus_cache
from experiments import card
from tests.conftest import write_file
from tests.experiments.test_probe import CONLLU


def test_tables(bilm_archive, tmp_path, monkeypatch, capsys):
    """By hand: a row for each kind of text and for all, in tokens, and two rows of the probe."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    heldout, treebank = tmp_path / "heldout", tmp_path / "treebank"
    write_file(heldout / "news.txt", "the dog .\nhe threw the stick .\n")
    write_file(heldout / "letters" / "1.txt", "to the dog\n")
    for split in ("train", "dev"):
        write_file(treebank / f"en_ewt-ud-{split}.conllu", CONLLU)
    arguments = ["card", bilm_archive, "--heldout", str(heldout), "--treebank", str(treebank)]
    arguments += ["--work", str(tmp_path / "work"), "--states", "warm"]
    monkeypatch.setattr(sys, "argv", arguments)
    card.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "|" in line]
    found = [(row[0], row[1]) for row in rows if "---" not in row[0]]
    assert found[:4] == [("| text", "tokens"), ("| letters", "3"), ("| news", "8"), ("| all", "11")]
    assert [row[0] for row in rows[-2:]] == ["| `warm`", "| most frequent tag"]
