"""The paper's six tasks on allennlp-models' own models: each config, its ELMo version and both for
two cores are trained, and then evaluated and predict offline, in another folder."""

import json

import _jsonnet
import pytest
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.elmo.elmo import Elmo
from tests.conftest import ROOT
from tests.training_configs.task_models import train_and_move

# By task: held-out data, what a text to predict from looks like, and what is predicted. A predictor
# of roles needs a spaCy model that finds verbs (tests/allennlp_today/test_spacy_models.py).
TASKS = {
    "bidaf": ("squad/dev.json", {"passage": "Leila sells cakes.", "question": "Who?"}, "best_span"),
    "esim": ("snli/dev.jsonl", {"premise": "A dog runs.", "hypothesis": "It sleeps."}, "label"),
    "srl": ("srl/dev", None, "tags"),
    "coref": ("coref/dev.gold_conll", {"document": "A dog runs. It barks."}, "clusters"),
    "ner": ("ner/dev.conll", {"sentence": "Anna Berg flew to Oslo."}, "tags"),
    "bcn": ("sst/dev.txt", {"sentence": "It isn't dull."}, "label"),
}
# The encoder's input and output with the paper's or the published numbers, as in
# docs/paper_tasks.md, and with the 256 columns of `small`.
SIZES = {
    "bidaf": (100 + 100, 2 * 100),
    "bidaf_elmo": (100 + 100 + 256 + 256, 2 * 100 + 256),
    "esim": (300, 2 * 300),
    "esim_elmo": (300 + 256 + 256, 2 * 300 + 256),
    "srl": (100 + 100, 300),
    "srl_elmo": (100 + 100 + 256, 300),
    "coref": (300 + 100, 2 * 200),
    "coref_elmo": (300 + 100 + 256, 2 * 200),
    "ner": (50 + 128, 2 * 200),
    "ner_elmo": (50 + 128 + 256, 2 * 200),
    "bcn": (300, 2 * 300),
    "bcn_elmo": (300, 2 * 300),  # reads a feedforward layer's output
}
# By task: the number of mixes, layer norm and lambda, from the paper's supplemental material, and
# from its table 2 for roles.
ELMO = {
    "bidaf": (2, False, 0),
    "esim": (2, True, 0.001),
    "srl": (1, False, 0.001),
    "coref": (1, False, 0),
    "ner": (1, False, 0.1),
    "bcn": (2, False, 0.001),
}


@pytest.mark.parametrize("folder", ["", "two_cores/"])
@pytest.mark.parametrize("task", ELMO)
def test_elmo_as_in_the_paper(task, folder):
    """Expected: the table above, in both sizes."""
    model = evaluated(f"import '{folder}{task}_elmo.jsonnet'")["model"]
    elmo = model["elmo"] if task == "bcn" else embedders(model)["elmo"]
    regexes = model.get("regularizer", {"regexes": []})["regexes"]
    assert (
        elmo["num_output_representations"],
        elmo.get("do_layer_norm", False),
        sum(penalty["alpha"] for _, penalty in regexes),
    ) == ELMO[task]


@pytest.mark.parametrize("task, fixed", zip(TASKS, [True, False, False, True, False, True]))
def test_glove(task, fixed):
    """Expected: the published configs' choice between fixed and fine-tuned vectors."""
    model = evaluated(f"(import '{task}_elmo.jsonnet')")["model"]
    assert embedders(model)["tokens"].get("trainable", True)
    model = evaluated(f"(import '{task}.jsonnet') + {{ glove:: 'glove.txt' }}")["model"]
    tokens = embedders(model)["tokens"]
    assert tokens["pretrained_file"] == "glove.txt"
    assert tokens.get("trainable", True) != fixed


def evaluated(snippet: str) -> dict:
    return json.loads(_jsonnet.evaluate_snippet(f"{ROOT}/training_configs/test.jsonnet", snippet))


def embedders(model: dict) -> dict:
    return model["text_field_embedder"]["token_embedders"]


def configs():
    for name in SIZES:
        yield f"two_cores/{name}"
        yield pytest.param(name, marks=pytest.mark.long)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("config", configs())
def test_train_evaluate_predict(config, tmp_path, monkeypatch):
    """Expected: what was trained gives the same loss after it was moved, and predictions."""
    name = config.removeprefix("two_cores/")
    task, _, with_elmo = name.partition("_")
    held_out, text, prediction = TASKS[task]
    monkeypatch.chdir(ROOT)
    data = ROOT / "fixtures" / held_out
    one_epoch = ["--overrides", json.dumps({"trainer.num_epochs": 1})]
    train_and_move(f"training_configs/{config}.jsonnet", data, tmp_path, monkeypatch, *one_epoch)
    archive = load_archive("model.tar.gz")
    assert any(isinstance(m, Elmo) for m in archive.model.modules()) == bool(with_elmo)
    # `bcn` is the one model without a predictor of its own.
    predictor = Predictor.from_archive(archive, "text_classifier" if task == "bcn" else None)
    instances = list(archive.validation_dataset_reader.read(str(data)))
    assert all(prediction in p for p in predictor.predict_batch_instance(instances))
    if text is not None:
        assert prediction in predictor.predict_json(text)
    if name == config:
        assert _encoder_sizes(archive.model) == SIZES[name]


def _encoder_sizes(model) -> tuple[int, int]:
    for name in ("encoder", "_encoder", "_phrase_layer", "_context_layer"):
        if hasattr(model, name):
            encoder = getattr(model, name)
            return encoder.get_input_dim(), encoder.get_output_dim()
    raise AssertionError(f"{type(model)} has no encoder")
