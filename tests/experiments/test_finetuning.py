"""The table of fine-tuning, for a tiny tagger."""

import json
from pathlib import Path

import pytest
import torch
from allennlp.common.file_utils import cached_path
from allennlp.common.plugins import import_plugins

from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text import corpus_cache
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import finetuning
from experiments.perplexity import perplexity
from tests.conftest import write_bilm_archive

SENTENCES = [f"the###D dog{k}###N threw###V it###P" for k in range(20)]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A tagger without ELMo."""
    (tmp_path / "data.tsv").write_text("\n".join("\t".join(s.split()) for s in SENTENCES * 2))
    data = str(tmp_path / "data.tsv")
    config = {
        "dataset_reader": {"type": "sequence_tagging"},
        "train_data_path": data,
        "validation_data_path": data,
        "model": {
            "type": "simple_tagger",
            "text_field_embedder": {
                "token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}
            },
            "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 8},
        },
        "data_loader": {"batch_size": 2},
        "trainer": {"num_epochs": 1, "optimizer": "adam", "validation_metric": "+accuracy"},
    }
    (tmp_path / "tagger.json").write_text(json.dumps(config))
    return tmp_path / "tagger.json"


def test_table(
    bilm_archive: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: the tokens of the 20 distinct sentences, of which two in four are unknown; the
    perplexity of the archive, and of the fine-tuned one that the folder has afterwards. The second
    time, nothing is trained, and with another biLM or another config nothing is taken over."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    import_plugins()
    for name in ("ARCHIVE", "TEXT", "DEV"):
        monkeypatch.setenv(f"BILM_{name}", "")
    table = finetuning.finetuning_table(bilm_archive, [task], tmp_path / "work")
    row = table.splitlines()[2].split(" | ")
    assert row[:3] == ["| tagger", "80", "50.0 %"]
    text = open_corpus(finetuning.text_of(task, "validation_data_path"))
    (folder,) = (tmp_path / "work").iterdir()
    tuned = folder / "bilm" / "model.tar.gz"
    models = [load_language_model(archive) for archive in (bilm_archive, tuned)]
    for cell, model in zip(row[3:5], models):
        assert float(cell) == round(perplexity(model, text, "warm").joint, 1)
    assert not torch.equal(*(model.softmax.weight for model in models))
    metrics = json.loads((folder / "after" / "metrics.json").read_text())
    assert row[6] == f"{100 * metrics['best_validation_accuracy']:.1f} |"

    monkeypatch.setattr(finetuning, "train_model_from_file", None)
    assert finetuning.finetuning_table(bilm_archive, [task], tmp_path / "work") == table
    trained = TypeError, "'NoneType' object is not callable"
    other = write_bilm_archive(tmp_path / "other", seed=1)
    with pytest.raises(trained[0], match=trained[1]):
        finetuning.finetuning_table(other, [task], tmp_path / "work")
    task.write_text(task.read_text().replace('"hidden_size": 8', '"hidden_size": 9'))
    with pytest.raises(trained[0], match=trained[1]):
        finetuning.finetuning_table(bilm_archive, [task], tmp_path / "work")


def test_number_of_negative_samples(
    bilm_archive: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive's own number replaces the config's. A model in the package has none, which would
    train with the full softmax."""
    for name in ("ARCHIVE", "TEXT", "DEV"):
        monkeypatch.setenv(f"BILM_{name}", "")
    found = []
    monkeypatch.setattr(
        finetuning, "_train", lambda config, overrides, out: found.append(overrides)
    )
    for archive in (bilm_archive, str(cached_path("pretrained://tiny"))):
        finetuning.fine_tune(archive, task, tmp_path)
    assert isinstance(found[0]["model.n_negative_samples"], int)
    assert sorted(found[1]) == ["model.char_cnn", "model.lstm"]
