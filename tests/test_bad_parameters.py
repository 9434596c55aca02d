"""Every parameter of every registrable is given values that it cannot have: the error names the
parameter, and nothing is built. A parameter's kind follows from its docstring, and the bad values
follow from the kind: a count is not a fraction, and a number is not NaN. AllenNLP itself takes
`true` for the whole number 1, and 1 for `true`, before it calls a constructor, so these two are
left out."""

import inspect
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader, TokenIndexer, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder, TokenEmbedder
from allennlp.predictors import Predictor
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.optimizers import Optimizer

from elmo_plugin import Elmo
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from tests.conftest import BLOCKS, WORDS

NAN, INF = math.nan, math.inf
OTHERS: list[Any] = [None, [], [[]], {}, {"a": 1}]
NUMBERS: list[Any] = [-1, 1.5, NAN, INF, -INF, 1e30, 10**30]

KINDS: dict[str, list[Any]] = {
    "count": [*OTHERS, *NUMBERS, 0, "", "3", [3]],
    "count or 0": [*OTHERS, *NUMBERS, "", "3", [3]],
    "number": [*OTHERS, NAN, INF, -INF, -1, "", "0.5", [0.5]],
    "number above 0": [*OTHERS, NAN, INF, -INF, -1, 0, "", "0.5", [0.5]],
    "fraction": [*OTHERS, NAN, INF, -INF, -0.1, 1.1, 10**30, "", "0.5", [0.5]],
    "flag": [*OTHERS, "", "true", "false", 0.5, NAN, [True]],
    "choice": [*OTHERS, "", "nonsense", 7, NAN, ["warm"]],
    "path": [*OTHERS, "", "a\0b", 7, NAN, True, ["a"]],
    "text": [*OTHERS, "", 7, NAN, True, ["a"]],
    "string": [[], [[]], {}, {"a": 1}, 7, NAN, True, ["a"]],
    "any": [],  # checked by AllenNLP or PyTorch, or without consequence
    "bound": [[], [[]], {}, {"a": 1}, NAN, INF, -INF, -1, "", "0.5", [0.5]],
    "block": [None, [], [[]], "", "x", 7, NAN, True, {}, {"a": 1}],
    "filters": [*OTHERS, 7, "x", [3], [[3]], [[3, 0]], [[0, 3]], [[3, -1]], [[3, True]], [[3, 1.5]]]
    + [[[3, 2, 1]], [["3", 2]], [[3, NAN]], [[10**9, 4]], [[None, 4]]],
    "mix": [[], {}, 0.5, "mix", [0.5], ["a", "b", "c"], [0, NAN, 0], [0, INF, 0], [[0], [0], [0]]],
    "words": [[], {}, 7, "the", [1, 2], [None], [[]]],
    "added tokens": [[], 7, "x", ["a"], {"a": "b"}, {"a": NAN}, {"a": 1.5}, {"a": []}],
    "indexers": [[], 7, "x", {"a": 7}, {"a": {"type": "nonsense"}}],
    "encoder": ["nonsense", {"type": "nonsense"}],
    "columns": [*OTHERS, 7, "x", [3], [[3]], [[3, 5, 7]], [[5, 3]], [[0, 5], [3, 7]], [[0, 10]]],
    "groups": [
        [[["a"], {option: value}]]
        for option, value in (
            *(("lr", -1), ("lr", "1"), ("eps", NAN), ("momentum", 0)),
            ("requires_grad", "false"),
        )
    ],
}

BILM_MODEL = {
    "lstm": "block",
    "lstm.dim": "count",
    "lstm.projection_dim": "count",
    "lstm.n_layers": "count",
    "lstm.cell_clip": "bound",
    "lstm.proj_clip": "bound",
    "lstm.use_skip_connections": "flag",
    "char_cnn": "block",
    "char_cnn.embedding": "block",
    "char_cnn.embedding.dim": "count",
    "char_cnn.filters": "filters",
    "char_cnn.n_highway": "count or 0",
    "char_cnn.activation": "choice",
    "char_cnn.max_characters_per_token": "count",
    "words": "block",
    "dropout": "fraction",
    "n_negative_samples": "count",
    "initial_state": "choice",
    "precision": "choice",
    "sparse_gradients": "flag",
    "pretrained_file": "path",
    "pretrained_vocabulary_file": "path",
    "pretrained_softmax_file": "path",
}
PARAMETERS: dict[tuple[type, str], dict[str, str]] = {
    (Model, "bilm"): BILM_MODEL,
    (Model, "bcn_elmo"): {"elmo": "any"},
    (Model, "bidaf_elmo"): {"elmo_columns": "columns"},
    (Model, "naqanet_elmo"): {"elmo_columns": "columns"},
    (Model, "qanet_elmo"): {"elmo_columns": "columns"},
    (DatasetReader, "bilm"): {
        "token_indexers": "indexers",
        "max_instances": "any",
        "max_characters_per_token": "count",
    },
    (DataLoader, "bilm"): {
        "data_path": "string",
        "batch_size": "count",
        "window": "count",
        "shuffle": "choice",
        "seed": "count or 0",
        "restart_every": "count",
        "cache_dir": "string",
    },
    (Vocabulary, "bilm"): {
        "corpus": "string",
        "file": "string",
        "max_size": "count",
        "min_count": "count or 0",
        "cache_dir": "string",
    },
    (Checkpointer, "bilm"): {
        "save_every_num_seconds": "number",
        "save_every_num_batches": "count",
        "keep_most_recent_by_count": "count or 0",
    },
    (TokenIndexer, "elmo"): {
        "namespace": "any",
        "tokens_to_add": "added tokens",
        "max_characters_per_token": "count",
        "token_min_padding_length": "any",
    },
    (TokenEmbedder, "elmo"): {
        "options_file": "path",
        "weight_file": "path",
        "do_layer_norm": "flag",
        "dropout": "fraction",
        "requires_grad": "flag",
        "projection_dim": "count or 0",
        "vocab_to_cache": "words",
        "scalar_mix_parameters": "mix",
        "archive_file": "path",
        "num_output_representations": "count",
        "initial_state": "choice",
        "precision": "choice",
        "pretrained": "choice",
        "cache_dir": "path",
        "cache_dtype": "choice",
        "cache_size_gb": "number above 0",
        "use_top_only": "flag",
        "elmo_dim": "count",
    },
    (Seq2SeqEncoder, "elmo_output"): {
        "encoder": "encoder",
        "elmo_dim": "count",
        "start": "count or 0",
    },
    (Optimizer, "clipped_adagrad"): {
        "parameter_groups": "groups",
        "lr": "any",
        "initial_accumulator_value": "any",
        "grad_norm": "number above 0",
    },
    (TrainerCallback, "learning_curve"): {"interval": "count"},
    (TrainerCallback, "validate_every"): {"num_batches": "count", "num_seconds": "number"},
}
WITHOUT_PARAMETERS = {
    (Predictor, "bilm"),
    (Predictor, "elmo"),
    (Optimizer, "fused_adam"),
    (Seq2SeqEncoder, "lstm"),
    (TrainerCallback, "keep_freed_memory"),
    (TrainerCallback, "wandb"),
}
"""These have no parameters, or AllenNLP's own alone."""

GIVEN_BY_ALLENNLP = {
    *("self", "vocab", "serialization_dir", "model", "model_parameters", "reader", "regularizer"),
    *("ddp_accelerator", "kwargs"),
    # of AllenNLP's models that ours extend
    *("text_field_embedder", "num_highway_layers", "phrase_layer", "initializer"),
}
TOKENS = {"tokens": {"type": "embedding", "num_embeddings": 3, "embedding_dim": 9}}


def _pass_through(dim: int) -> dict[str, Any]:
    return {"type": "pass_through", "input_dim": dim}


def _feedforward(input_dim: int, output_dim: int) -> dict[str, Any]:
    sizes = {"input_dim": input_dim, "hidden_dims": output_dim}
    return {**sizes, "num_layers": 1, "activations": "relu"}


def _bcn(weights: Any) -> dict[str, Any]:
    """`bcn_elmo` with a mix of 16 columns at its output."""
    return {
        "text_field_embedder": {"token_embedders": TOKENS},
        "embedding_dropout": 0.1,
        "pre_encode_feedforward": _feedforward(9, 2),
        "encoder": _pass_through(2),
        "integrator": _pass_through(6),
        "integrator_dropout": 0.1,
        "output_layer": _feedforward(4 * (6 + 16), 2),
        "elmo": {"type": "elmo", **weights._asdict()},
        "use_integrator_output_elmo": True,
    }


def _reading(attention: str, **encoders: int) -> dict[str, Any]:
    """`bidaf_elmo` and the like: 5 columns of the embedded text, and 4 for the output."""
    return {
        "text_field_embedder": {"token_embedders": TOKENS},
        "num_highway_layers": 1,
        "phrase_layer": _pass_through(5),
        "elmo_columns": [[5, 9]],
        attention: {"type": "dot_product"},
        **{name: _pass_through(dim) for name, dim in encoders.items()},
    }


class Builder:
    """Builds each registrable from parameters that are right except for the one that is changed."""

    def __init__(self, folder: Path, weights: Any) -> None:
        text = folder / "text.txt"
        text.write_text("the dog threw the stick .\nhe threw it to the dog .\n" * 4)
        labels = Vocabulary()
        labels.add_tokens_to_namespace(["yes", "no"], "labels")
        parameters = {"model_parameters": list(torch.nn.Linear(2, 2).named_parameters())}
        run = {"serialization_dir": str(folder)}
        data = {"data_path": str(text), "batch_size": 2, "cache_dir": str(folder / "corpora")}
        corpus = {"corpus": data["data_path"], "cache_dir": data["cache_dir"]}
        output = {"encoder": _pass_through(5), "elmo_dim": 4, "start": 5}
        bidaf = _reading("matrix_attention", modeling_layer=36, span_end_encoder=144)
        qanet = _reading("matrix_attention_layer", modeling_layer=9)
        self.right: dict[tuple[type, str], tuple[dict[str, Any], dict[str, Any]]] = {
            (Model, "bilm"): (
                {**BLOCKS, "n_negative_samples": 4},
                {"vocab": BiLMVocabulary.from_words(WORDS)},
            ),
            (Model, "bcn_elmo"): (_bcn(weights), {"vocab": labels}),
            (Model, "bidaf_elmo"): (bidaf, {"vocab": labels}),
            (Model, "naqanet_elmo"): (qanet, {"vocab": labels}),
            (Model, "qanet_elmo"): (qanet, {"vocab": labels}),
            (DatasetReader, "bilm"): ({}, {}),
            (DataLoader, "bilm"): (data, {"reader": BiLMDatasetReader()}),
            (Vocabulary, "bilm"): (corpus, {}),
            (Checkpointer, "bilm"): ({}, {**run, "model": torch.nn.Linear(2, 2)}),
            (TokenIndexer, "elmo"): ({}, {}),
            (TokenEmbedder, "elmo"): (
                {**weights._asdict(), "cache_dir": str(folder / "layers")},
                {"vocab": Vocabulary()},
            ),
            (Seq2SeqEncoder, "elmo_output"): (output, {}),
            (Optimizer, "clipped_adagrad"): ({}, parameters),
            (TrainerCallback, "learning_curve"): ({}, run),
            (TrainerCallback, "validate_every"): ({"num_batches": 5}, run),
        }

    def __call__(self, registrable: tuple[type, str], key: str | None, value: Any = None) -> Any:
        kind, name = registrable
        params, extras = self.right[registrable]
        params, extras = deepcopy(params), dict(extras)
        *blocks, last = key.split(".") if key else [None]
        block = params
        for step in blocks:
            block = block[step]
        if last is not None:
            block[last] = value
        if key in ("archive_file", "pretrained"):
            params = {k: v for k, v in params.items() if not k.endswith("_file") or k == key}
        if key == "file":
            del params["corpus"]
        if key == "num_seconds":
            del params["num_batches"]
        if key in ("pretrained_vocabulary_file", "pretrained_softmax_file"):
            params["pretrained_file"] = "tiny"
        return kind.from_params(Params({"type": name, **params}), **extras)


@pytest.fixture(scope="module")
def build(tmp_path_factory, bilm_files) -> Builder:
    return Builder(tmp_path_factory.mktemp("bad_parameters"), bilm_files)


def test_every_parameter_is_tried():
    """The expected parameters are those of the constructors. A new parameter needs a line here."""
    registered = {
        (kind, name)
        for kind in (
            *(DataLoader, DatasetReader, TokenIndexer, Vocabulary, Model, Seq2SeqEncoder),
            *(TokenEmbedder, Predictor, TrainerCallback, Checkpointer, Optimizer),
        )
        for name in kind.list_available()
        if kind.by_name(name).__module__.startswith(("elmo_plugin.", "allennlp_today."))
    }
    assert registered == {*PARAMETERS, *WITHOUT_PARAMETERS}
    for (kind, name), tried in PARAMETERS.items():
        found = set(inspect.signature(_constructor(kind, name)).parameters) - GIVEN_BY_ALLENNLP
        if kind is TokenEmbedder:  # passes parameters on
            found |= inspect.signature(Elmo).parameters.keys() - {
                "bilm",
                "keep_sentence_boundaries",
            }
        assert {key.split(".")[0] for key in tried} - {"data_path"} == found - {"data_path"}


@pytest.mark.parametrize(
    "registrable", PARAMETERS, ids=lambda registrable: f"{registrable[0].__name__} {registrable[1]}"
)
def test_bad_values(build, registrable):
    """Each bad value of the parameter's kind is refused by an error that names the parameter."""
    assert build(registrable, None) is not None
    defaults = inspect.signature(_constructor(*registrable)).parameters
    faults = []
    for key, kind in PARAMETERS[registrable].items():
        optional = key in defaults and defaults[key].default is None
        for value in KINDS[kind]:
            if value is None and (optional or (registrable, key) in NULL_HAS_A_MEANING):
                continue
            if (key, repr(value)) not in HARMLESS:
                faults += _faults(build, registrable, key, value)
    assert not faults, "\n".join(faults)


NULL_HAS_A_MEANING = {
    ((Model, "bilm"), "n_negative_samples"),
    ((Model, "bilm"), "lstm.cell_clip"),
    ((Model, "bilm"), "lstm.proj_clip"),
    ((Model, "bilm"), "lstm.use_skip_connections"),
    ((Model, "bilm"), "char_cnn.n_highway"),
    ((DataLoader, "bilm"), "shuffle"),
    ((TokenEmbedder, "elmo"), "requires_grad"),
    ((TokenEmbedder, "elmo"), "precision"),
    ((Checkpointer, "bilm"), "save_every_num_seconds"),
    ((Checkpointer, "bilm"), "keep_most_recent_by_count"),
}
HARMLESS = {
    ("token_indexers", "[]"),  # as if none were given
    ("tokens_to_add", "[]"),
}


def _constructor(kind: type, name: str) -> Callable[..., Any]:
    cls, method = kind.resolve_class_name(name)
    return getattr(cls, method) if method else cls


def _faults(build: Builder, registrable: tuple[type, str], key: str, value: Any) -> list[str]:
    """Return what is wrong with how `value` is received, or nothing if it is refused by name."""
    name = key.rsplit(".", maxsplit=1)[-1]
    try:
        found = build(registrable, key, value)
    except (ConfigurationError, ValueError, TypeError, FileNotFoundError) as error:
        message = str(error)
        # The error for an unknown key in a block names that key.
        if name in message or (value == {"a": 1} and "Extra parameters" in message):
            return []
        return [f"{key} {value!r}: {type(error).__name__} does not name it: {message}"]
    return [f"{key} {value!r}: accepted, {found!r:.80}"]
