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
from tests.conftest import ROOT, BiLMFiles, allennlp

DIM = 16
"""Size of an ELMo vector of the test's biLM."""
ELMO: dict[str, Any] = {"type": "elmo_token_embedder", "do_layer_norm": False, "dropout": 0.0}
INDEXED = {"elmo": {"type": "elmo_characters"}}
WORDS = {"tokens": {"type": "single_id", "lowercase_tokens": True}}


def lstm(input_size: int, **more: Any) -> dict[str, Any]:
    sizes = {"input_size": input_size, "hidden_size": 4, "num_layers": 1}
    return {"type": "lstm", **sizes, "bidirectional": True, **more}


def feedforward(input_dim: int, hidden_dims: int, activations: str = "relu") -> dict[str, Any]:
    sizes = {"input_dim": input_dim, "num_layers": 1, "hidden_dims": hidden_dims}
    return {**sizes, "activations": activations}


def embedded(**others: Any) -> dict[str, Any]:
    return {"token_embedders": {"elmo": ELMO, **others}}


def characters(width: int) -> dict[str, Any]:
    cnn = {"type": "cnn", "embedding_dim": 4, "num_filters": 6, "ngram_filter_sizes": [width]}
    embedding = {"num_embeddings": 262, "embedding_dim": 4}
    return {"type": "character_encoding", "embedding": embedding, "encoder": cnn}


SRL = {
    "dataset_reader": {"type": "srl", "token_indexers": INDEXED},
    "model": {
        "type": "srl",
        "text_field_embedder": embedded(),
        "initializer": [["tag_projection_layer.*weight", {"type": "orthogonal"}]],
        "encoder": {
            "type": "alternating_lstm",
            "input_size": DIM + 4,
            "hidden_size": 4,
            "num_layers": 2,
            "recurrent_dropout_probability": 0.1,
            "use_input_projection_bias": False,
        },
        "binary_feature_dim": 4,
        "regularizer": [[".*scalar_parameters.*", {"type": "l2", "alpha": 0.001}]],
    },
    "iterator": {"type": "bucket", "sorting_keys": [["tokens", "num_tokens"]], "batch_size": 80},
    "trainer": {
        "grad_clipping": 1.0,
        "num_serialized_models_to_keep": 10,
        "validation_metric": "+f1-measure-overall",
        "optimizer": {"type": "adadelta", "rho": 0.95},
    },
}
BCN_READER = {"type": "sst_tokens", "granularity": "5-class"}
# By the names of AllenNLP 0.9's files in `training_config/`: the data, and the config in small
# sizes. `srl_elmo_5.5B` is `semantic_role_labeler_elmo` with other files of the biLM.
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "biattentive_classification_network_elmo": (
        "sst/{}.txt",
        {
            "dataset_reader": {
                **BCN_READER,
                "use_subtrees": True,
                "token_indexers": {"tokens": {"type": "single_id"}, **INDEXED},
            },
            "validation_dataset_reader": {
                **BCN_READER,
                "use_subtrees": False,
                "token_indexers": {"tokens": {"type": "single_id"}, **INDEXED},
            },
            "model": {
                "type": "bcn",
                "text_field_embedder": {
                    "token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}
                },
                "embedding_dropout": 0.5,
                "pre_encode_feedforward": {
                    "input_dim": DIM + 5,
                    "num_layers": 1,
                    "hidden_dims": [4],
                    "activations": ["relu"],
                    "dropout": [0.25],
                },
                "encoder": lstm(4),
                "integrator": lstm(24),
                "integrator_dropout": 0.1,
                "elmo": {"do_layer_norm": False, "dropout": 0.0, "num_output_representations": 1},
                "use_input_elmo": True,
                "use_integrator_output_elmo": False,
                "output_layer": {
                    "input_dim": 32,
                    "num_layers": 3,
                    "output_dims": [8, 6, 5],
                    "pool_sizes": 4,
                    "dropout": [0.2, 0.3, 0.0],
                },
            },
            "iterator": {
                "type": "bucket",
                "sorting_keys": [["tokens", "num_tokens"]],
                "batch_size": 100,
            },
            "trainer": {
                "grad_norm": 5.0,
                "validation_metric": "+accuracy",
                "optimizer": {"type": "adam", "lr": 0.001},
            },
        },
    ),
    "bidaf_elmo": (
        "squad/{}.json",
        {
            "dataset_reader": {
                "type": "squad",
                "token_indexers": {
                    **WORDS,
                    **INDEXED,
                    "token_characters": {
                        "type": "characters",
                        "character_tokenizer": {
                            "byte_encoding": "utf-8",
                            "start_tokens": [259],
                            "end_tokens": [260],
                        },
                        "min_padding_length": 5,
                    },
                },
            },
            "model": {
                "type": "bidaf",
                "text_field_embedder": embedded(
                    tokens={"type": "embedding", "embedding_dim": 5, "trainable": False},
                    token_characters=characters(5),
                ),
                "num_highway_layers": 2,
                "phrase_layer": lstm(DIM + 5 + 6),
                "similarity_function": {
                    "type": "linear",
                    "combination": "x,y,x*y",
                    "tensor_1_dim": 8,
                    "tensor_2_dim": 8,
                },
                "modeling_layer": lstm(32),
                "span_end_encoder": lstm(56),
                "dropout": 0.2,
            },
            "iterator": {
                "type": "bucket",
                "sorting_keys": [["passage", "num_tokens"], ["question", "num_tokens"]],
                "batch_size": 40,
            },
            "trainer": {
                "grad_norm": 5.0,
                "validation_metric": "+em",
                "learning_rate_scheduler": {
                    "type": "reduce_on_plateau",
                    "factor": 0.5,
                    "mode": "max",
                    "patience": 2,
                },
                "optimizer": {"type": "adam", "betas": [0.9, 0.9]},
            },
        },
    ),
    "constituency_parser_elmo": (
        "trees/train.mrg",
        {
            "dataset_reader": {
                "type": "ptb_trees",
                "use_pos_tags": True,
                "token_indexers": INDEXED,
            },
            "model": {
                "type": "constituency_parser",
                "text_field_embedder": embedded(),
                "pos_tag_embedding": {"embedding_dim": 4, "vocab_namespace": "pos"},
                "initializer": [
                    ["tag_projection_layer.*weight", {"type": "xavier_normal"}],
                    ["encoder._module.weight_hh.*", {"type": "orthogonal"}],
                ],
                "encoder": lstm(DIM + 4),
                "feedforward": feedforward(8, 6),
                "span_extractor": {"type": "bidirectional_endpoint", "input_dim": 8},
                "evalb_directory_path": None,
            },
            "iterator": {
                "type": "bucket",
                "sorting_keys": [["tokens", "num_tokens"]],
                "batch_size": 32,
            },
            "trainer": {
                "learning_rate_scheduler": {"type": "multi_step", "milestones": [40], "gamma": 0.8},
                "grad_norm": 5.0,
                "optimizer": {"type": "adadelta", "lr": 1.0, "rho": 0.95},
            },
        },
    ),
    "esim_elmo": (
        "snli/{}.jsonl",
        {
            "dataset_reader": {"type": "snli", "token_indexers": INDEXED},
            "model": {
                "type": "esim",
                "dropout": 0.5,
                "text_field_embedder": embedded(),
                "encoder": lstm(DIM),
                "similarity_function": {"type": "dot_product"},
                "projection_feedforward": feedforward(32, 4),
                "inference_encoder": lstm(4),
                "output_feedforward": feedforward(32, 4),
                "output_logit": feedforward(4, 3, "linear"),
                "initializer": [
                    [".*linear_layers.*weight", {"type": "xavier_uniform"}],
                    [".*bias_hh.*", {"type": "lstm_hidden_bias"}],
                ],
            },
            "iterator": {
                "type": "bucket",
                "sorting_keys": [["premise", "num_tokens"], ["hypothesis", "num_tokens"]],
                "batch_size": 32,
            },
            "trainer": {
                "optimizer": {"type": "adam", "lr": 0.0004},
                "validation_metric": "+accuracy",
                "num_serialized_models_to_keep": 2,
                "grad_norm": 10.0,
            },
        },
    ),
    "ner_elmo": (
        "ner/{}.conll",
        {
            "dataset_reader": {
                "type": "conll2003",
                "tag_label": "ner",
                "coding_scheme": "BIOUL",
                "token_indexers": {
                    **WORDS,
                    **INDEXED,
                    "token_characters": {"type": "characters", "min_padding_length": 3},
                },
            },
            "model": {
                "type": "crf_tagger",
                "label_encoding": "BIOUL",
                "dropout": 0.5,
                "include_start_end_transitions": False,
                "text_field_embedder": embedded(
                    tokens={"type": "embedding", "embedding_dim": 5, "trainable": True},
                    token_characters=characters(3),
                ),
                "encoder": lstm(DIM + 5 + 6),
                "regularizer": [["scalar_parameters", {"type": "l2", "alpha": 0.1}]],
            },
            "iterator": {"type": "basic", "batch_size": 64},
            "trainer": {
                "optimizer": {"type": "adam", "lr": 0.001},
                "validation_metric": "+f1-measure-overall",
                "num_serialized_models_to_keep": 3,
                "grad_norm": 5.0,
            },
        },
    ),
    "semantic_role_labeler_elmo": ("srl/{}", SRL),
}


def bucket(batch_size: int, *fields: str) -> str:
    sampler = {"type": "bucket", "batch_size": batch_size, "sorting_keys": [*fields]}
    return f"iterator -> data_loader: {json.dumps({'batch_sampler': sampler})}"


KEEP = "trainer.num_serialized_models_to_keep -> trainer.checkpointer.keep_most_recent_by_count: {}"
SIMILARITY = "model.similarity_function -> model.matrix_attention"


def regexes(name: str, config: dict[str, Any]) -> str:
    return f"model.{name} -> model.{name}: {json.dumps({'regexes': config['model'][name]})}"


EXPECTED = {
    "biattentive_classification_network_elmo": {bucket(100, "tokens")},
    "bidaf_elmo": {bucket(40, "passage", "question"), SIMILARITY},
    "constituency_parser_elmo": {bucket(32, "tokens"), "initializer"},
    "esim_elmo": {bucket(32, "premise", "hypothesis"), SIMILARITY, "initializer", KEEP.format(2)},
    "ner_elmo": {
        'iterator -> data_loader: {"batch_size": 64, "shuffle": true}',
        "regularizer",
        KEEP.format(3),
    },
    "semantic_role_labeler_elmo": {
        bucket(80, "tokens"),
        "initializer",
        "regularizer",
        KEEP.format(10),
    },
}
"""What differs between 0.9 and 2.10.1, by comparing AllenNLP's own versions of each config."""


def lines_of(config: dict[str, Any]) -> list[str]:
    """The outdated keys of a config, with what replaces them."""
    with pytest.raises(OldConfigError) as raised:
        check(copy.deepcopy(config))
    message = str(raised.value)
    is_one = "\n" not in message
    first, *lines = message.split(", found " if is_one else ", found\n  ")
    assert first == "expected a config of AllenNLP 2.10.1"
    return lines if is_one else lines[0].split("\n  ")


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


def with_files(data: str, config: dict[str, Any], files: BiLMFiles) -> dict[str, Any]:
    """The config with the files of the data and of a biLM, for one epoch on a CPU."""
    config = json.loads(json.dumps(config))
    embedders = config["model"]["text_field_embedder"]["token_embedders"]
    (config["model"].get("elmo") or embedders["elmo"]).update(files._asdict())
    config["trainer"].update(num_epochs=1, cuda_device=-1)
    for key, part in (("train", "train"), ("validation", "dev")):
        config[f"{key}_data_path"] = str(ROOT / "fixtures" / data.format(part))
    return config


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config(name: str, tmp_path: Path, bilm_files: BiLMFiles) -> None:
    """Each config is an error before a folder is made, and trains after what its lines say, and the
    two types of ELMo, are changed."""
    config = with_files(*PUBLISHED[name], bilm_files)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    run = tmp_path / "run"
    with pytest.raises(OldConfigError):
        allennlp("train", file, "-s", run)
    assert not run.exists()
    lines = lines_of(config)
    expected = {regexes(line, config) if " " not in line else line for line in EXPECTED[name]}
    assert len(lines) == len(expected) and set(lines) == expected

    config = follow(config, lines)
    text = json.dumps(config).replace('"elmo_characters"', '"elmo"')
    config = json.loads(text.replace('"elmo_token_embedder"', '"elmo"'))
    if config["model"]["type"] == "bcn":
        config["model"]["type"] = "bcn_elmo"
        config["model"]["elmo"]["type"] = "elmo"
    file.write_text(json.dumps(config))
    allennlp("train", file, "-s", run, "--include-package", "elmo_plugin")
    assert json.loads((run / "metrics.json").read_text())["best_validation_loss"] > 0


MISMATCHED = 'type: "pretrained_transformer_mismatched", with model_name for pretrained_model, '
INDEXER = "max_length for max_pieces, and none of the other keys"
EMBEDDER = (
    "and train_parameters and last_layer_only for requires_grad and top_layer_only, which were "
    "false by default"
)
TENSORBOARD = 'trainer.callbacks: [{"type": "tensorboard"}], which has such keys'
FROM_FILES = 'directory, with the type "from_files" or "extend"'


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        (
            {"validation_iterator": {"batch_size": 8, "sorting_keys": [["a", "b"], ["a", "c"]]}},
            {"validation_iterator": 'validation_data_loader: {"batch_sampler": {"type": "bucket", '
             '"batch_size": 8, "sorting_keys": ["a"]}}'},
        ),
        (
            {"iterator": "basic", "validation_iterator": {"type": "basic", "batch_size": 8}},
            {"iterator": 'data_loader: {"batch_size": 32, "shuffle": true}',
             "validation_iterator": 'validation_data_loader: {"batch_size": 8, "shuffle": false}'},
        ),
        (
            {"iterator": {"type": "multiprocess", "num_workers": 2, "batch_size": 1,
                          "base_iterator": {"type": "basic", "batch_size": 9}},
             "validation_iterator": {"type": "multiprocess",
                                     "base_iterator": {"sorting_keys": [["a", "b"]]}}},
            {"iterator": 'data_loader: {"batch_size": 9, "shuffle": true}',
             "validation_iterator": 'validation_data_loader: {"batch_sampler": {"type": "bucket", '
             '"batch_size": 32, "sorting_keys": ["a"]}}'},
        ),
        ({"iterator": {"type": "homogeneous_batch"}}, {"iterator": "data_loader"}),
        (
            {"dataset_reader": {"type": "snli", "lazy": True},
             "validation_dataset_reader": {"type": "snli", "lazy": True}},
            {"dataset_reader.lazy": "data_loader.max_instances_in_memory: 1000",
             "validation_dataset_reader.lazy": "remove it"},
        ),
        (
            {"dataset_reader": {"readers": {"a": {"type": "snli", "lazy": False}}}},
            {"dataset_reader.readers.a.lazy": "remove it"},
        ),
        (
            {"dataset_reader": {"tokenizer": {"type": "word", "word_filter": {"type": "stop"}}}},
            {"dataset_reader.tokenizer.type": 'dataset_reader.tokenizer.type: "spacy"',
             "dataset_reader.tokenizer.word_filter": "remove it"},
        ),
        (
            {"dataset_reader": {"tokenizer": {"word_splitter": "just_spaces"}}},
            {"dataset_reader.tokenizer.word_splitter":
             'dataset_reader.tokenizer.type: "just_spaces"'},
        ),
        (
            {"dataset_reader": {"tokenizer": {"word_splitter": {"type": "spacy", "tags": True}}}},
            {"dataset_reader.tokenizer.word_splitter": 'dataset_reader.tokenizer.type: "spacy"',
             "dataset_reader.tokenizer.word_splitter.tags":
             "dataset_reader.tokenizer.tags: true"},
        ),
        (
            {"dataset_reader": {"tokenizer": {"type": "word", "word_splitter": "just_spaces"},
                                "target_tokenizer": "word"}},
            {"dataset_reader.tokenizer.word_splitter":
             'dataset_reader.tokenizer.type: "just_spaces"',
             "dataset_reader.target_tokenizer": 'dataset_reader.target_tokenizer.type: "spacy"'},
        ),
        (
            {"dataset_reader": {"tokenizer": {"word_splitter": {"pos_tags": True}, "type": "word",
                                              "end_tokens": ["@@NULL@@"]}}},
            {"dataset_reader.tokenizer.word_splitter.pos_tags":
             "dataset_reader.tokenizer.pos_tags: true",
             "dataset_reader.tokenizer.type": 'dataset_reader.tokenizer.type: "spacy"'},
        ),
        (
            {"dataset_reader": {"tokenizer": {"start_tokens": ["a"], "type": "word",
                                              "word_splitter": {"type": "just_spaces"}}},
             "validation_dataset_reader": {"tokenizer": {"word_splitter": "letters_digits",
                                                         "end_tokens": ["a"]}}},
            {"dataset_reader.tokenizer.start_tokens":
             'remove it, or use "spacy" and split_on_spaces: true for "just_spaces"',
             "dataset_reader.tokenizer.word_splitter":
             'dataset_reader.tokenizer.type: "just_spaces"',
             "validation_dataset_reader.tokenizer.word_splitter":
             'validation_dataset_reader.tokenizer.type: "letters_digits"',
             "validation_dataset_reader.tokenizer.end_tokens": "remove it"},
        ),
        (
            {"dataset_reader": {"tokenizer": {"type": "word", "word_splitter": "bert-basic"}},
             "model": {"text_field_embedder": {"bert": {"type": "bert-pretrained"}}}},
            {"dataset_reader.tokenizer.word_splitter": 'dataset_reader.tokenizer.type: "spacy"',
             "model.text_field_embedder.bert.type":
             f"model.text_field_embedder.bert.{MISMATCHED}{EMBEDDER}"},
        ),
        (
            {"dataset_reader": {"token_indexers": {
                "bert": {"type": "bert-pretrained", "pretrained_model": "bert-base-cased",
                         "do_lowercase": False, "use_starting_offsets": True}}},
             "model": {"text_field_embedder": {"token_embedders": {
                 "bert": {"type": "bert-pretrained", "pretrained_model": "bert-base-cased"}}}}},
            {"dataset_reader.token_indexers.bert.type":
             f"dataset_reader.token_indexers.bert.{MISMATCHED}{INDEXER}",
             "model.text_field_embedder.token_embedders.bert.type":
             f"model.text_field_embedder.token_embedders.bert.{MISMATCHED}{EMBEDDER}"},
        ),
        (
            {"model": {"text_field_embedder": {
                "allow_unmatched_keys": True,
                "embedder_to_indexer_map": {"elmo": ["elmo", "tokens"]},
                "elmo": ELMO,
            }}},
            {"model.text_field_embedder.allow_unmatched_keys": "remove it",
             "model.text_field_embedder.embedder_to_indexer_map": "remove it",
             "model.text_field_embedder.elmo":
             "model.text_field_embedder.token_embedders.elmo"},
        ),
        (
            {"vocabulary": {"directory_path": "words", "extend": True}},
            {"vocabulary.directory_path": FROM_FILES, "vocabulary.extend": FROM_FILES},
        ),
        (
            {"trainer": {"cuda_device": [0, 1], "shuffle": False, "type": "default"}},
            {"trainer.cuda_device": "distributed.cuda_devices: [0, 1]",
             "trainer.shuffle": "data_loader.shuffle: false, or of its batch_sampler",
             "trainer.type": "remove it"},
        ),
        (
            {"trainer": {"cuda_device": [0], "shuffle": True}},
            {"trainer.cuda_device": "trainer.cuda_device: 0", "trainer.shuffle": "remove it"},
        ),
        (
            {"trainer": {"model_save_interval": 60, "keep_serialized_model_every_num_seconds": 9}},
            {"trainer.model_save_interval": "trainer.checkpointer.save_every_num_seconds: 60",
             "trainer.keep_serialized_model_every_num_seconds": "remove it"},
        ),
        (
            {"trainer": {"summary_interval": 1, "histogram_interval": 1, "log_batch_size_period": 1,
                         "should_log_learning_rate": True}},
            dict.fromkeys(("trainer.summary_interval", "trainer.histogram_interval",
                           "trainer.log_batch_size_period", "trainer.should_log_learning_rate"),
                          TENSORBOARD),
        ),
    ],
)  # fmt: skip
def test_an_outdated_key(config: dict[str, Any], lines: dict[str, str]) -> None:
    """By comparing the parameters of 0.9 with those of 2.10.1. The published configs have the
    other keys."""
    assert lines_of(config) == [f"{old} -> {new}" for old, new in lines.items()]


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
def test_what_replaces_a_key(
    base: type[Registrable], name: str, keys: set[str], lacks: set[str]
) -> None:
    """AllenNLP's classes of today have the keys that the lines name, and lack the others."""
    kind = base.by_name(name.split('"')[1] if '"' in name else name)
    found = inspect.signature(kind.__init__).parameters.keys()
    assert keys <= found and not lacks & found


def test_an_unknown_key_of_the_trainer() -> None:
    """AllenNLP ignores it. The line has the keys that there are, and a key that is still read is
    none of the unknown ones."""
    (line,) = lines_of({"trainer": {"num_epoch": {"a": 1, "b": 2}, "run_sanity_checks": False}})
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
def test_a_class_of_the_users_own(
    base: type[Registrable], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """The reader and the model of an archive are checked; its other blocks are not used."""
    config = with_files(*PUBLISHED["esim_elmo"], bilm_files)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OldConfigError) as raised:
        load_archive(tmp_path)
    expected = [line for line in lines_of(config) if line.startswith("model.")]
    assert set(str(raised.value).split("\n  ")[1:]) == set(expected) and len(expected) == 2
