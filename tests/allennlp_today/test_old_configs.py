"""Configs of AllenNLP 0.9: one error lists what is outdated, and what it says makes them train."""

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import TrainModel
from allennlp.common import Params, Registrable
from allennlp.data import DatasetReader, TokenIndexer, Tokenizer, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import load_archive
from allennlp.modules import Seq2SeqEncoder, TextFieldEmbedder, TokenEmbedder
from allennlp.training import Trainer

from allennlp_today.old_configs import OldConfigError, check
from tests.conftest import ROOT, BiLMFiles, allennlp, write_file

DIM = 16
"""Size of an ELMo vector of the test's biLM."""


def lstm(input_size: int) -> dict[str, Any]:
    sizes = {"input_size": input_size, "hidden_size": 4, "num_layers": 1}
    return {"type": "lstm", **sizes, "bidirectional": True}


def feedforward(input_dim: int, hidden_dims: int, activations: str = "relu") -> dict[str, Any]:
    sizes = {"input_dim": input_dim, "num_layers": 1, "hidden_dims": hidden_dims}
    return {**sizes, "activations": activations}


CONFIG: dict[str, Any] = {
    "dataset_reader": {
        "type": "snli",
        "token_indexers": {"tokens": "single_id", "elmo": {"type": "elmo_characters"}},
    },
    "model": {
        "type": "esim",
        "text_field_embedder": {
            "token_embedders": {
                "elmo": {"type": "elmo_token_embedder", "do_layer_norm": False, "dropout": 0.0},
                "tokens": {"type": "embedding", "embedding_dim": 5},
            }
        },
        "encoder": lstm(DIM + 5),
        "similarity_function": {"type": "dot_product"},
        "projection_feedforward": feedforward(32, 4),
        "inference_encoder": lstm(4),
        "output_feedforward": feedforward(32, 4),
        "output_logit": feedforward(4, 3, "linear"),
        "initializer": [[".*bias_hh.*", {"type": "lstm_hidden_bias"}]],
        "regularizer": [["scalar_parameters", {"alpha": 0.1, "type": "l2"}]],
    },
    "iterator": {
        "type": "bucket",
        "sorting_keys": [["premise", "num_tokens"], ["hypothesis", "num_tokens"]],
        "batch_size": 32,
    },
    "validation_iterator": {"type": "basic", "batch_size": 64},
    "trainer": {"optimizer": "adam", "num_serialized_models_to_keep": 2},
}
"""AllenNLP 0.9's `esim_elmo.jsonnet` in small sizes, with the outdated keys of its other files in
`training_config/`; `OUTDATED` has those that no such file has."""


def lines_of(config: dict[str, Any]) -> list[str]:
    """The outdated keys of a config, with what replaces them."""
    with pytest.raises(OldConfigError) as raised:
        check(copy.deepcopy(config))
    first, _, found = str(raised.value).partition(", found")
    assert first == "expected a config of AllenNLP 2.10.1"
    return found.split("\n  ")[1:] or [found[1:]]


def follow(config: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    """Do what the lines say."""
    config = copy.deepcopy(config)
    for line in lines:
        old, new = line.split(" -> ")
        *blocks, key = old.split(".")
        value = block_at(config, blocks).pop(key)
        if new != "remove it":
            path, _, text = new.partition(": ")
            *blocks, key = path.split(".")
            block_at(config, blocks)[key] = json.loads(text) if text else value
    return config


def block_at(config: dict[str, Any], path: list[str]) -> dict[str, Any]:
    for key in path:
        config = config.setdefault(key, {})
    return config


def with_files(files: BiLMFiles) -> dict[str, Any]:
    """The config with the files of the data and of a biLM, for one epoch on a CPU."""
    config = json.loads(json.dumps(CONFIG))
    embedders = config["model"]["text_field_embedder"]["token_embedders"]
    embedders["elmo"].update(files._asdict())
    config["trainer"].update(num_epochs=1, cuda_device=-1)
    for key, part in (("train", "train"), ("validation", "dev")):
        config[f"{key}_data_path"] = str(ROOT / "fixtures" / "snli" / f"{part}.jsonl")
    return config


def test_a_published_config(tmp_path: Path, bilm_files: BiLMFiles) -> None:
    """It is an error before a folder is made, and trains after what the lines say, and the two
    types of ELMo, are changed."""
    config = with_files(bilm_files)
    file = write_file(tmp_path / "config.json", json.dumps(config))
    run = tmp_path / "run"
    with pytest.raises(OldConfigError):
        allennlp("train", file, "-s", run)
    assert not run.exists()
    text = json.dumps(follow(config, lines_of(config))).replace('"elmo_characters"', '"elmo"')
    file.write_text(text.replace('"elmo_token_embedder"', '"elmo"'))
    allennlp("train", file, "-s", run, "--include-package", "elmo_plugin")
    assert json.loads((run / "metrics.json").read_text())["best_validation_loss"] > 0


MISMATCHED = 'type: "pretrained_transformer_mismatched", with model_name for pretrained_model, '
OUTDATED = """
validation_iterator = {"batch_size": 8, "sorting_keys": [["a", "b"], ["a"]], "padding_noise": 0}
-> validation_data_loader: {"batch_sampler": SAMPLER(8)}

iterator = "basic" -> data_loader: {"batch_size": 32, "shuffle": true}
validation_iterator = {"type": "basic", "batch_size": 8}
-> validation_data_loader: {"batch_size": 8, "shuffle": false}

iterator = {"type": "multiprocess", "base_iterator": {"type": "basic", "instances_per_epoch": 9}}
-> data_loader: {"batch_size": 32, "shuffle": true}, without instances_per_epoch
validation_iterator = {"type": "multiprocess", "base_iterator": {"sorting_keys": [["a", "b"]]}}
-> validation_data_loader: {"batch_sampler": SAMPLER(32)}

iterator = {"type": "homogeneous_batch"} -> data_loader

dataset_reader.lazy = true -> data_loader.max_instances_in_memory: 1000
validation_dataset_reader.lazy = true -> remove it

dataset_reader.readers.a.lazy = false -> remove it

READER.tokenizer.type = "word" -> READER.tokenizer.type: "spacy"
READER.tokenizer.word_filter = {"type": "stop"} -> remove it

READER.tokenizer.word_splitter = {"type": "spacy"} -> READER.tokenizer.type: "spacy"
READER.tokenizer.word_splitter.tags = true -> READER.tokenizer.tags: true

READER.tokenizer.word_splitter = "just_spaces" -> READER.tokenizer.type: "just_spaces"
READER.tokenizer.type = "word"
READER.target_tokenizer = "word" -> READER.target_tokenizer.type: "spacy"

READER.tokenizer.word_splitter.pos_tags = true -> READER.tokenizer.pos_tags: true
READER.tokenizer.type = "word" -> READER.tokenizer.type: "spacy"
READER.tokenizer.end_tokens = ["@@NULL@@"]

READER.tokenizer.start_tokens = ["a"]
-> remove it, or use "spacy" and split_on_spaces: true for "just_spaces"
READER.tokenizer.word_splitter = {"type": "just_spaces"} -> READER.tokenizer.type: "just_spaces"

READER.tokenizer.word_splitter = "letters_digits" -> READER.tokenizer.type: "letters_digits"
READER.tokenizer.end_tokens = ["a"] -> remove it

READER.tokenizer.word_splitter = "bert-basic" -> READER.tokenizer.type: "spacy"
READER.token_indexers.bert.use_starting_offsets = true
READER.token_indexers.bert.type = "bert-pretrained"
-> READER.token_indexers.bert.MISMATCHEDmax_length for max_pieces, and none of the other keys
model.text_field_embedder.token_embedders.bert.type = "bert-pretrained"
-> model.text_field_embedder.token_embedders.bert.MISMATCHEDand TRAINABLE

model.text_field_embedder.bert.type = "bert-pretrained"
-> model.text_field_embedder.bert.MISMATCHEDand TRAINABLE

model.text_field_embedder.allow_unmatched_keys = true -> remove it
model.text_field_embedder.embedder_to_indexer_map = {"elmo": ["elmo", "tokens"]} -> remove it
model.text_field_embedder.elmo = {"type": "elmo_token_embedder", "dropout": 0.0}
-> model.text_field_embedder.token_embedders.elmo

model.initializer = [["a.*", {"type": "orthogonal"}], ["b", {"type": "zero"}]]
-> model.initializer: {"regexes": [["a.*", {"type": "orthogonal"}], ["b", {"type": "zero"}]]}
model.encoder.regularizer = [["a", "l2"]]
-> model.encoder.regularizer: {"regexes": [["a", "l2"]]}
model.similarity_function = {"type": "linear", "combination": "x,y,x*y"} -> model.matrix_attention

vocabulary.directory_path = "words" -> directory, with the type "from_files" or "extend"
vocabulary.extend = true -> directory, with the type "from_files" or "extend"

trainer.cuda_device = [0, 1] -> distributed.cuda_devices: [0, 1]
trainer.shuffle = false -> data_loader.shuffle: false, or of its batch_sampler
trainer.type = "default" -> remove it

trainer.cuda_device = [0] -> trainer.cuda_device: 0
trainer.shuffle = true -> remove it
trainer.num_serialized_models_to_keep = 2
-> trainer.checkpointer.keep_most_recent_by_count: 2
trainer.model_save_interval = 60 -> trainer.checkpointer.save_every_num_seconds: 60
trainer.keep_serialized_model_every_num_seconds = 9 -> remove it
trainer.summary_interval = 1 -> trainer.callbacks: [{"type": "tensorboard"}], which has such keys
"""
"""Keys of configs, with what replaces each outdated one; an empty line ends a config."""
for name, text in {
    "MISMATCHED": MISMATCHED,
    "TRAINABLE": "train_parameters and last_layer_only for requires_grad and top_layer_only, which "
    "were false by default",
    "SAMPLER(8)": '{"type": "bucket", "batch_size": 8, "sorting_keys": ["a"], "padding_noise": 0}',
    "SAMPLER(32)": '{"type": "bucket", "batch_size": 32, "sorting_keys": ["a"]}',
    "READER": "dataset_reader",
}.items():
    OUTDATED = OUTDATED.replace(name, text)


@pytest.mark.parametrize("rows", OUTDATED.strip().split("\n\n"), ids=lambda x: x.split()[0])
def test_an_outdated_key(rows: str) -> None:
    """By comparing the parameters of 0.9 with those of 2.10.1."""
    config: dict[str, Any] = {}
    expected = []
    for row in rows.replace("\n-> ", " -> ").splitlines():
        entry, _, replacement = row.partition(" -> ")
        key, value = entry.split(" = ")
        *blocks, last = key.split(".")
        block_at(config, blocks)[last] = json.loads(value)
        expected += [f"{key} -> {replacement}"] if replacement else []
    assert lines_of(config) == expected


@pytest.mark.parametrize(
    ("base", "name", "keys", "lacks"),
    [
        (TokenIndexer, MISMATCHED, {"model_name", "max_length"}, {"do_lowercase"}),
        (TokenEmbedder, MISMATCHED, {"model_name", "train_parameters", "last_layer_only"}, set()),
        (Tokenizer, "spacy", {"start_tokens", "end_tokens", "split_on_spaces"}, set()),
        (Tokenizer, "just_spaces", set(), {"start_tokens", "end_tokens"}),
        (Tokenizer, "letters_digits", set(), {"start_tokens", "end_tokens"}),
    ],
)
def test_what_replaces_a_key(base, name, keys, lacks):
    """AllenNLP's classes of today have the keys that the lines name, and lack the others."""
    kind = base.by_name(name.split('"')[1] if '"' in name else name)
    found = inspect.signature(kind.__init__).parameters.keys()
    assert keys <= found and not lacks & found


def test_an_unknown_key_of_the_trainer() -> None:
    """AllenNLP ignores it. The line has the keys that there are, and a key that is still read, here
    or in place of an embedder's keys, has no line, nor has a regex."""
    used: Any = {"text_field_embedder": {"_pretrained": {"freeze": True}}}
    used["initializer"] = {"regexes": [["text_field_embedder.elmo.mix", "prevent"]]}
    trainer = {"num_epoch": {"a": 1, "b": 2}, "run_sanity_checks": False}
    (line,) = lines_of({"model": used, "trainer": trainer})
    assert line.startswith("trainer.num_epoch -> unknown; the keys are callbacks, checkpointer, ")
    assert " num_epochs, " in line and "local_rank" not in line


OWN: list[tuple[type[Registrable], dict[str, Any]]] = [
    (DatasetReader, {"dataset_reader": {"type": "own", "lazy": True}}),
    (DatasetReader, {"validation_dataset_reader": {"readers": {"lazy": True}, "type": "own"}}),
    (Tokenizer, {"dataset_reader": {"tokenizer": {"type": "own", "word_filter": "stop"}}}),
    (Tokenizer, {"dataset_reader": {"tokenizer": {"type": "word", "word_stemmer": "own"}}}),
    (Tokenizer, {"dataset_reader": {"tokenizer": {"type": "basic", "word_splitter": "own"}}}),
    (Vocabulary, {"vocabulary": {"type": "own", "directory_path": "words", "extend": True}}),
    (Model, {"model": {"type": "own", "similarity_function": {"type": "linear"}}}),
    (Model, {"model": {"type": "own", "initializer": [], "regularizer": [["a", "l2"]]}}),
    (Model, {"model": {"type": "own", "settings": {"allow_unmatched_keys": True}}}),
    (Seq2SeqEncoder, {"model": {"type": "esim", "encoder": {"type": "own", "initializer": []}}}),
    (TextFieldEmbedder, {"model": {"text_field_embedder": {"type": "own", "elmo": {"a": 1}}}}),
    (Trainer, {"trainer": {"type": "own", "shuffle": True, "num_epoch": 1, "cuda_device": [0]}}),
    (TrainModel, {"type": "own", "iterator": "basic", "trainer": {"num_epoch": 1}}),
    (DatasetReader, {"dataset_reader": {"type": "mine.readers.Reader", "lazy": True}}),
    (Tokenizer, {"dataset_reader": {"type": "snli", "tokenizer": "word"}}),
]


@pytest.mark.parametrize(("base", "config"), OWN)
def test_a_class_of_the_users_own(base, config, monkeypatch):
    """It may have the parameters that AllenNLP's classes have lost, also under a name that AllenNLP
    gives to a class of another kind, or that 0.9 gave to one of this kind. The nearest class
    around a key has it."""
    registry = {**Registrable._registry[base]}
    monkeypatch.setitem(Registrable._registry, base, registry)
    for name in ("own", "word", "basic"):
        registry[name] = (type("Own", (base,), {}), None)
    check(copy.deepcopy(config))


@pytest.mark.parametrize("name", [p.stem for p in (ROOT / "training_configs").glob("*.jsonnet")])
def test_a_config_of_today(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this project's configs has an outdated key."""
    for variable in ("BILM_TEXT", "BILM_DEV", "BILM_ARCHIVE", "ELMO_ARCHIVE"):
        monkeypatch.setenv(variable, "FILE")
    monkeypatch.setenv("ELMO_DIM", "16")
    check(Params.from_file(ROOT / "training_configs" / f"{name}.jsonnet").as_dict())


def test_an_archive(tmp_path: Path, bilm_files: BiLMFiles) -> None:
    """Its reader and its model are checked, without initializers, which AllenNLP removes."""
    config = with_files(bilm_files)
    write_file(tmp_path / "config.json", json.dumps(config))
    with pytest.raises(OldConfigError) as raised:
        load_archive(tmp_path)
    del config["model"]["initializer"]
    expected = [line for line in lines_of(config) if line.startswith("model.")]
    assert set(str(raised.value).split("\n  ")[1:]) == set(expected) and len(expected) == 2
