"""The probe. Expected values are worked out by hand, or follow from how the data were made."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from experiments import probe
from experiments.probe import Tagged
from experiments.rows import read_rows, save_rows
from tests.conftest import write_bilm_archive

CONLLU = """\
1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tbarks\tbark\tVERB\tVBZ\t_\t0\troot\t_\t_

1\tstick\tstick\tVERB\tVB\t_\t0\troot\t_\t_
2\tto\tto\tADP\tIN\t_\t3\tcase\t_\t_
3\tit\tit\tPRON\tPRP\t_\t1\tobl\t_\t_

"""
SENTENCES = [["the", "dog", "barks"], ["stick", "to", "it"]]
TAGS = ["DET", "NOUN", "VERB", "VERB", "ADP", "PRON"]


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    for split in ("train", "dev"):
        (tmp_path / f"en_ewt-ud-{split}.conllu").write_text(CONLLU)
    return tmp_path


def test_reads_universal_tags(treebank: Path) -> None:
    assert probe.read_tagged(treebank / "en_ewt-ud-dev.conllu") == Tagged(SENTENCES, TAGS)


def test_most_frequent_tag() -> None:
    """By hand: "dog" and "to" are right; "the" is `DET` once more often; "cat" is unknown."""
    train = Tagged([["the", "the", "the", "dog", "to"]], ["DET", "DET", "X", "NOUN", "ADP"])
    dev = Tagged([["dog", "to", "the", "cat"]], ["NOUN", "ADP", "X", "DET"])
    assert probe.most_frequent_tag_accuracy(train, dev) == 75.0


def test_linear_classifier() -> None:
    """Classes that a plane separates are told apart, and those that differ in nothing are not."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 5)).astype(np.float32)
    tags = np.where(x[:, 1] > 0, "A", "B").tolist()
    assert probe.probe_accuracy(x[:300], tags[:300], x[300:], tags[300:]) > 95
    guessed = probe.probe_accuracy(0 * x[:300], tags[:300], 0 * x[300:], tags[300:])
    assert guessed == pytest.approx(
        100 * tags[300:].count(max(set(tags), key=tags[:300].count)) / 100
    )


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_vectors(bilm_archive: str, tmp_path: Path, state: str) -> None:
    """Expected: those of `Elmo.embed`, rounded to float16; under `carry` in batches of 64
    sentences. They are computed once."""
    sentences = SENTENCES * 40
    elmo = Elmo.from_archive(bilm_archive, initial_state=state)
    found = probe.layer_vectors(elmo, sentences, tmp_path)
    other = Elmo.from_archive(bilm_archive, initial_state=state)
    parts = [sentences[:64], sentences[64:]] if state == "carry" else [sentences]
    expected = [x for part in parts for x in other.embed(part, layer="all")]
    np.testing.assert_allclose(found, np.concatenate(expected, axis=1), rtol=2e-3, atol=1e-4)
    elmo.embed = None  # type: ignore[assignment, method-assign]
    np.testing.assert_array_equal(probe.layer_vectors(elmo, sentences, tmp_path), found)


def test_table(bilm_archive: str, treebank: Path, tmp_path: Path) -> None:
    """Scored on what it was trained on, where the baseline is right about every word."""
    lines = probe.probe_table(bilm_archive, treebank, ["zero"], tmp_path / "work").splitlines()
    assert lines[0] == "| vectors | words | LSTM 1 | LSTM 2 | average |"
    assert lines[2].startswith("| `zero` | ")
    assert lines[3] == "| most frequent tag |  |  |  | 100.0 |"


def test_development_words_are_scored(bilm_archive: str, treebank: Path, tmp_path: Path) -> None:
    """By hand: all words are known, and one of three has another tag than in training."""
    dev = "1\tit\t_\tPRON\n2\tbarks\t_\tVERB\n3\tdog\t_\tVERB\n\n"
    rest = "\t_\t_\t0\troot\t_\t_\n"
    (treebank / "en_ewt-ud-dev.conllu").write_text(dev.replace("\n", rest, 3))
    words, *_ = probe.probe_rows("one", bilm_archive, treebank, ["zero"], tmp_path / "work")
    for row in (words, probe.baseline_row(treebank)):
        assert row["metrics"]["accuracy"] == pytest.approx(200 / 3)


def test_rows(bilm_archive: str, treebank: Path, tmp_path: Path) -> None:
    """By hand: the rows of two biLMs and of the baseline, whose digests tell the biLMs apart."""
    other = write_bilm_archive(tmp_path / "other", seed=1)
    rows = [probe.baseline_row(treebank)]
    for name, archive in (("one", bilm_archive), ("other", other), ("again", bilm_archive)):
        rows += probe.probe_rows(name, archive, treebank, ["warm"], tmp_path / "work")
    save_rows(tmp_path / "rows.jsonl", rows)
    found = read_rows(tmp_path / "rows.jsonl")
    layers = ["words", "LSTM 1", "LSTM 2", "average"]
    assert [row["settings"]["layer"] for row in found] == ["average", *3 * layers]
    one, second, again = (found[start]["digest"] for start in (1, 5, 9))
    assert one == again != second
    header, _, *lines = probe.rows_table(found).splitlines()
    assert header == "| vectors | words | LSTM 1 | LSTM 2 | average |"
    labels = ["most frequent tag", "one, `warm`", "other, `warm`", "again, `warm`"]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == labels


def test_a_missing_treebank_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected one file \*-ud-train.conllu, found 0"):
        probe.probe_table("", tmp_path, ["zero"], tmp_path)
