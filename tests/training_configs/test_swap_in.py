"""
The swap-in on three of allennlp-models' own models as they are: each config, and its ELMo version,
trains, and is evaluated and predicts offline, in another folder, when the biLM is gone. So does
`srl` with ELMo at its encoder's output too, where the verb's mark stands behind the embedded text.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy
import pytest
import spacy
from allennlp.commands import main
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_plugin.elmo.elmo import Elmo
from tests.conftest import write_bilm_archive

ROOT = Path(__file__).parents[2]
HELD_OUT = {"ner": "ner/dev.conll", "esim": "snli/dev.jsonl", "srl": "srl/dev"}
PREDICTIONS = {"ner": "tags", "esim": "label", "srl": "tags"}
# By the number of columns that each encoder reads and gives, as hand computation has them: words
# 50, ELMo 128, the verb's mark 50, and encoders of 2 x 100, 2 x 50 and 100.
SIZES = {
    "ner": (50, 200),
    "ner_elmo": (50 + 128, 200),
    "esim": (50, 100),
    "esim_elmo": (50 + 128 + 128, 100 + 128),
    "srl": (50 + 50, 100),
    "srl_elmo": (50 + 50 + 128, 100),
    "srl_both": (50 + 50 + 128 + 128, 100 + 128),
}
SRL_BOTH = f"""
(import '{ROOT}/training_configs/lib/elmo.libsonnet').both(
  import '{ROOT}/training_configs/srl.jsonnet',
  {{ archive_file: std.extVar('ELMO_ARCHIVE') }},
  dim=128,
)
"""


def allennlp(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
    main(prog="allennlp")


@pytest.fixture(scope="module")
def blank_spacy(tmp_path_factory) -> str:
    """AllenNLP's taggers ask for a spaCy model even where their input has tokens already."""
    folder = tmp_path_factory.mktemp("spacy")
    spacy.blank("en").to_disk(folder)
    return str(folder)


@pytest.mark.parametrize("config", SIZES)
def test_train_evaluate_predict(config, tmp_path, monkeypatch, blank_spacy):
    """Expected: columns by hand; and that what was trained says the same after it was moved."""
    bilm = tmp_path / "bilm"
    task, _, with_elmo = config.partition("_")
    held_out = ROOT / "fixtures" / HELD_OUT[task]
    monkeypatch.setenv("ELMO_ARCHIVE", write_bilm_archive(bilm, projection_dim=64))
    monkeypatch.chdir(ROOT)
    file = ROOT / "training_configs" / f"{config}.jsonnet"
    if config == "srl_both":
        file = tmp_path / "srl_both.jsonnet"
        file.write_text(SRL_BOTH)
    allennlp(monkeypatch, "train", file, "-s", tmp_path / "run")
    trained = json.loads((tmp_path / "run" / "metrics.json").read_text())

    shutil.rmtree(bilm)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "run" / "model.tar.gz", elsewhere)
    shutil.rmtree(tmp_path / "run")
    monkeypatch.delenv("ELMO_ARCHIVE")
    monkeypatch.chdir(elsewhere)

    allennlp(monkeypatch, "evaluate", "model.tar.gz", held_out, "--output-file", "metrics.json")
    evaluated = json.loads(Path("metrics.json").read_text())
    assert evaluated["loss"] == pytest.approx(trained["validation_loss"], rel=1e-5)

    arguments = ["predict", "model.tar.gz", held_out, "--use-dataset-reader", "--silent"]
    if task != "esim":
        arguments += ["--predictor-args", json.dumps({"language": blank_spacy})]
    allennlp(monkeypatch, *arguments, "--output-file", "out.jsonl")
    predictions = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert predictions and all(PREDICTIONS[task] in p for p in predictions)

    model = load_archive("model.tar.gz").model
    encoder = model._encoder if task == "esim" else model.encoder
    assert (encoder.get_input_dim(), encoder.get_output_dim()) == SIZES[config]
    assert any(isinstance(m, Elmo) for m in model.modules()) == bool(with_elmo)


def test_a_missing_bilm_is_an_error_in_training(tmp_path, monkeypatch):
    """There must be an archive to train with, however complete other archives are."""
    monkeypatch.setenv("ELMO_ARCHIVE", str(tmp_path / "gone.tar.gz"))
    monkeypatch.chdir(ROOT)
    with pytest.raises((ConfigurationError, FileNotFoundError), match=r"gone\.tar\.gz"):
        allennlp(monkeypatch, "train", "training_configs/ner_elmo.jsonnet", "-s", tmp_path / "run")


def test_the_bilm_of_an_archive_is_the_one_that_it_was_trained_with(tmp_path, monkeypatch):
    """Expected: the first biLM's weights, though another has taken its place in the meantime."""
    archive = write_bilm_archive(tmp_path / "bilm", projection_dim=64, seed=1)
    expected = Elmo.from_archive(archive).embed("the dog", layer="average")
    monkeypatch.setenv("ELMO_ARCHIVE", archive)
    monkeypatch.chdir(ROOT)
    allennlp(monkeypatch, "train", "training_configs/ner_elmo.jsonnet", "-s", tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    write_bilm_archive(tmp_path / "bilm", projection_dim=32, seed=2)
    model = load_archive(tmp_path / "run" / "model.tar.gz").model
    (elmo,) = (m for m in model.modules() if isinstance(m, Elmo))
    found = elmo.embed("the dog", layer="average")
    numpy.testing.assert_allclose(found, expected, rtol=1e-5)
