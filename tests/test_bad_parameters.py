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
from allennlp.commands import Subcommand
from allennlp.common import Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader, TokenIndexer, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder, TokenEmbedder
from allennlp.predictors import Predictor
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
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
    "groups": [
        [[["a"], {option: value}]]
        for option, value in (
            *(("lr", -1), ("lr", "1"), ("eps", NAN), ("momentum", 0)),
            ("requires_grad", "false"),
        )
    ],
}

BY_KIND: dict[tuple[type, str], dict[str, str]] = {
    (Model, "bilm"): {
        "block": "lstm char_cnn char_cnn.embedding words",
        "count": "lstm.dim lstm.projection_dim lstm.n_layers char_cnn.embedding.dim "
        "char_cnn.max_characters_per_token n_negative_samples",
        "count or 0": "char_cnn.n_highway",
        "bound": "lstm.cell_clip lstm.proj_clip",
        "flag": "lstm.use_skip_connections sparse_gradients",
        "filters": "char_cnn.filters",
        "choice": "char_cnn.activation initial_state precision",
        "fraction": "dropout",
        "path": "pretrained_file pretrained_vocabulary_file pretrained_softmax_file",
    },
    (DatasetReader, "bilm"): {
        "indexers": "token_indexers",
        "any": "max_instances",
        "count": "max_characters_per_token",
    },
    (DataLoader, "bilm"): {
        "string": "data_path cache_dir",
        "count": "batch_size window restart_every",
        "choice": "shuffle",
        "count or 0": "seed",
    },
    (Vocabulary, "bilm"): {
        "string": "corpus file cache_dir",
        "count": "max_size",
        "count or 0": "min_count",
    },
    (Checkpointer, "bilm"): {
        "number": "save_every_num_seconds",
        "count": "save_every_num_batches",
        "count or 0": "keep_most_recent_by_count",
    },
    (TokenIndexer, "elmo"): {
        "any": "namespace token_min_padding_length",
        "added tokens": "tokens_to_add",
        "count": "max_characters_per_token",
    },
    (TokenEmbedder, "elmo"): {
        "path": "options_file weight_file archive_file cache_dir",
        "flag": "do_layer_norm requires_grad use_top_only",
        "fraction": "dropout",
        "count": "num_output_representations elmo_dim",
        "count or 0": "projection_dim",
        "words": "vocab_to_cache",
        "mix": "scalar_mix_parameters",
        "choice": "initial_state precision pretrained cache_dtype",
        "number above 0": "cache_size_gb",
    },
    (Seq2SeqEncoder, "elmo_output"): {
        "encoder": "encoder",
        "count": "elmo_dim",
        "count or 0": "start",
    },
    (Optimizer, "clipped_adagrad"): {
        "groups": "parameter_groups",
        "any": "lr initial_accumulator_value",
        "number above 0": "grad_norm",
    },
    (TrainerCallback, "learning_curve"): {"count": "interval"},
    (TrainerCallback, "validate_every"): {"count": "num_batches", "number": "num_seconds"},
}
PARAMETERS = {
    registrable: {name: kind for kind, names in kinds.items() for name in names.split()}
    for registrable, kinds in BY_KIND.items()
}
WITHOUT_PARAMETERS = {
    *((Model, name) for name in ("bcn_elmo", "bidaf_elmo", "naqanet_elmo", "qanet_elmo")),
    (Predictor, "bilm"),
    (Predictor, "elmo"),
    (Optimizer, "fused_adam"),
    (Seq2SeqEncoder, "lstm"),
    (TrainerCallback, "keep_freed_memory"),
    (TrainerCallback, "wandb"),
    (LearningRateScheduler, "reduce_on_plateau"),
    *((Subcommand, f"bilm-{name}") for name in ("encode", "export", "import")),
    *((Subcommand, name) for name in ("elmo", "elmo-configs", "elmo-mix", "score", "uses")),
}
"""These have no parameters, or AllenNLP's own and `elmo_columns`, for which
tests/plugin/test_elmo_output.py has wrong values."""

GIVEN_BY_ALLENNLP = {
    *("self", "vocab", "serialization_dir", "model", "model_parameters", "reader", "regularizer"),
    *("ddp_accelerator", "kwargs"),
}


def _pass_through(dim: int) -> dict[str, Any]:
    return {"type": "pass_through", "input_dim": dim}


class Builder:
    """Builds each registrable from parameters that are right except for the one that is changed."""

    def __init__(self, folder: Path, weights: Any) -> None:
        text = folder / "text.txt"
        text.write_text("the dog threw the stick .\nhe threw it to the dog .\n" * 4)
        parameters = {"model_parameters": list(torch.nn.Linear(2, 2).named_parameters())}
        run = {"serialization_dir": str(folder)}
        data = {"data_path": str(text), "batch_size": 2, "cache_dir": str(folder / "corpora")}
        corpus = {"corpus": data["data_path"], "cache_dir": data["cache_dir"]}
        output = {"encoder": _pass_through(5), "elmo_dim": 4, "start": 5}
        self.right: dict[tuple[type, str], tuple[dict[str, Any], dict[str, Any]]] = {
            (Model, "bilm"): (
                {**BLOCKS, "n_negative_samples": 4},
                {"vocab": BiLMVocabulary.from_words(WORDS)},
            ),
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
        for kind, names in Registrable._registry.items()
        for name, (found, _) in names.items()
        if found.__module__.startswith(("elmo_plugin.", "allennlp_today."))
    }
    assert registered == {*PARAMETERS, *WITHOUT_PARAMETERS}
    for (kind, name), tried in PARAMETERS.items():
        found = set(inspect.signature(_constructor(kind, name)).parameters) - GIVEN_BY_ALLENNLP
        if kind is TokenEmbedder:  # passes parameters on
            found |= {*inspect.signature(Elmo).parameters} - {"bilm", "keep_sentence_boundaries"}
        assert {key.split(".")[0] for key in tried} - {"data_path"} == found - {"data_path"}


@pytest.mark.parametrize(
    "registrable", PARAMETERS, ids=lambda registrable: f"{registrable[0].__name__} {registrable[1]}"
)
def test_bad_values(build, registrable):
    """Each bad value of the parameter's kind is refused by an error that names the parameter."""
    assert build(registrable, None) is not None
    defaults = inspect.signature(_constructor(*registrable)).parameters
    nullable = NULL_HAS_A_MEANING.get(registrable, "").split()
    faults = []
    for key, kind in PARAMETERS[registrable].items():
        optional = key in defaults and defaults[key].default is None
        for value in KINDS[kind]:
            if value is None and (optional or key in nullable):
                continue
            if (key, repr(value)) not in HARMLESS:
                faults += _faults(build, registrable, key, value)
    assert not faults, "\n".join(faults)


NULL_HAS_A_MEANING = {
    (Model, "bilm"): "n_negative_samples lstm.cell_clip lstm.proj_clip lstm.use_skip_connections "
    "char_cnn.n_highway",
    (DataLoader, "bilm"): "shuffle",
    (TokenEmbedder, "elmo"): "requires_grad precision",
    (Checkpointer, "bilm"): "save_every_num_seconds keep_most_recent_by_count",
}
HARMLESS = {("token_indexers", "[]"), ("tokens_to_add", "[]")}  # as if none were given


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
