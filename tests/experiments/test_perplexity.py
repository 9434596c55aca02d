"""Perplexities. Expected values are those of `allennlp evaluate`, which computes them otherwise,
and of NumPy."""

import json
from pathlib import Path

import pytest
from allennlp.models import Model

from elmo_plugin.text.corpus_cache import open_corpus
from experiments import perplexity
from tests.conftest import allennlp, write_file

TEXT = "he threw the stick .\nthe dog\nto to the unheard-of stick\n\nthe .\n" * 20
LOADERS = {
    "zero": {"type": "multiprocess", "batch_size": 3},
    "warm": {"type": "multiprocess", "batch_size": 3},
    "carry": {"type": "bilm", "batch_size": perplexity.ROWS, "shuffle": None},
}


@pytest.mark.parametrize("state", LOADERS)
def test_as_allennlp_evaluate(bilm_archive: str, state: str, tmp_path: Path) -> None:
    """Sentences one by one under `zero` and `warm`, running text in 64 rows under `carry`."""
    text, loader = write_file(tmp_path / "text.txt", TEXT), LOADERS[state]
    if state == "carry":
        loader["cache_dir"] = str(tmp_path / "cache")
    overrides = {"model.initial_state": state, "validation_data_loader": loader}
    metrics = tmp_path / "metrics.json"
    options = ["--overrides", json.dumps(overrides), "--include-package", "elmo_plugin"]
    allennlp("evaluate", bilm_archive, text, "--output-file", metrics, *options)
    expected = json.loads(metrics.read_text())

    model = Model.from_archive(bilm_archive)
    found = perplexity.perplexity(model, open_corpus(text, tmp_path / "cache"), state)
    for name in ("forward_perplexity", "backward_perplexity", "perplexity"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)
