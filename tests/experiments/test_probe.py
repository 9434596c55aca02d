"""The probe. Expected values are worked out by hand, or follow from how the data were made."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from experiments import probe
from experiments.probe import Tagged
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


def test_most_frequent_tag() -> None:
    """By hand: "dog" and "to" are right; "the" is `DET` once more often; "cat" is unknown."""
    train = Tagged([["the", "the", "the", "dog", "to"]], ["DET", "DET", "X", "NOUN", "ADP"])
    dev = Tagged([["dog", "to", "the", "cat"]], ["NOUN", "ADP", "X", "DET"])
    assert probe.most_frequent_tag_accuracy(train, dev) == 75.0


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


def test_rows(bilm_archive: str, tmp_path: Path) -> None:
    """By hand: all words are known, and one of three has another tag than in training, so that two
    thirds are right. Another biLM has another digest."""
    dev = "1\tit\t_\tPRON\n2\tbarks\t_\tVERB\n3\tdog\t_\tVERB\n\n"
    rest = "\t_\t_\t0\troot\t_\t_\n"
    (tmp_path / "en_ewt-ud-train.conllu").write_text(CONLLU)
    (tmp_path / "en_ewt-ud-dev.conllu").write_text(dev.replace("\n", rest, 3))
    other = write_bilm_archive(tmp_path / "other", seed=1)
    rows = [probe.baseline_row(tmp_path)]
    for name, archive in (("one", bilm_archive), ("other", other)):
        rows += probe.probe_rows(name, archive, tmp_path, ["zero"], tmp_path / "work")
    assert [x["metrics"]["accuracy"] for x in rows[:2]] == pytest.approx([200 / 3] * 2)
    assert rows[1]["digest"] == rows[4]["digest"] != rows[5]["digest"]
    header, _, *lines = probe.rows_table(rows).splitlines()
    assert header == "| vectors | words | LSTM 1 | LSTM 2 | average |"
    assert lines[0] == "| most frequent tag |  |  |  | 66.7 |"
    assert lines[1].startswith("| one, `zero` | 66.7 |")
