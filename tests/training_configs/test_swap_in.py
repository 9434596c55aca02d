"""A biLM of one's own in a task: the archive of the task is complete, and the biLM may be gone."""

import json
import shutil
from pathlib import Path

import numpy
import pytest
from allennlp.models.archival import load_archive

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo
from tests.conftest import ROOT, allennlp, write_bilm_archive

CONFIG = """
(import '%s/training_configs/lib/elmo.libsonnet').%s(
  (import '%s/training_configs/two_cores/%s.jsonnet') { trainer+: { num_epochs: 1 } },
  { archive_file: std.extVar('ELMO_ARCHIVE') },
  dim=%d,
)
"""


def write_config(folder: Path, how: str, task: str, dim: int = 2 * 8) -> Path:
    file = folder / "task.jsonnet"
    file.write_text(CONFIG % (ROOT, how, ROOT, task, dim))
    return file


def test_an_archive_is_complete(tmp_path, monkeypatch):
    """Expected: the same loss after the biLM is gone and the archive was moved; and sizes by hand:
    words 100, the verb's mark 100 behind them, and ELMo 16 at the input and at the output."""
    bilm = tmp_path / "bilm"
    monkeypatch.setenv("ELMO_ARCHIVE", write_bilm_archive(bilm))
    monkeypatch.chdir(ROOT)
    file = write_config(tmp_path, "both", "srl")
    allennlp("train", file, "-s", tmp_path / "run")
    trained = json.loads((tmp_path / "run" / "metrics.json").read_text())

    shutil.rmtree(bilm)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "run" / "model.tar.gz", elsewhere)
    shutil.rmtree(tmp_path / "run")
    monkeypatch.delenv("ELMO_ARCHIVE")
    monkeypatch.chdir(elsewhere)
    held_out = ROOT / "fixtures" / "srl" / "dev"
    allennlp("evaluate", "model.tar.gz", held_out, "--output-file", "metrics.json")
    evaluated = json.loads(Path("metrics.json").read_text())
    assert evaluated["loss"] == pytest.approx(trained["validation_loss"], rel=1e-5)
    arguments = ["--use-dataset-reader", "--silent", "--output-file", "out.jsonl"]
    allennlp("predict", "model.tar.gz", held_out, *arguments)
    predictions = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert predictions and all("tags" in p for p in predictions)
    encoder = load_archive("model.tar.gz").model.encoder
    assert encoder.get_input_dim() == 100 + 100 + 16 + 16
    assert encoder.get_output_dim() == 100 + 16


def test_a_missing_bilm_is_an_error_in_training(tmp_path, monkeypatch):
    """There must be an archive to train with, however complete other archives are."""
    monkeypatch.setenv("ELMO_ARCHIVE", str(tmp_path / "gone.tar.gz"))
    monkeypatch.chdir(ROOT)
    file = write_config(tmp_path, "input", "ner")
    with pytest.raises((InputError, FileNotFoundError), match=r"gone\.tar\.gz"):
        allennlp("train", file, "-s", tmp_path / "run")


def test_the_bilm_of_an_archive_is_the_one_that_it_was_trained_with(tmp_path, monkeypatch):
    """Expected: the first biLM's weights, though another has taken its place in the meantime."""
    archive = write_bilm_archive(tmp_path / "bilm", seed=1)
    expected = Elmo.from_archive(archive).embed("the dog", layer="average")
    monkeypatch.setenv("ELMO_ARCHIVE", archive)
    monkeypatch.chdir(ROOT)
    file = write_config(tmp_path, "input", "ner")
    allennlp("train", file, "-s", tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    write_bilm_archive(tmp_path / "bilm", projection_dim=4, seed=2)
    model = load_archive(tmp_path / "run" / "model.tar.gz").model
    (elmo,) = (m for m in model.modules() if isinstance(m, Elmo))
    found = elmo.embed("the dog", layer="average")
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)
