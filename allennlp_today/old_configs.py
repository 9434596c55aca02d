"""
Configs of AllenNLP 0.9 have keys that 2.10.1 does not know. AllenNLP reports one of them per run,
after it has made the run's folder, and ignores those of the block `trainer`, as it does a
misspelled `num_epoch`. With this module, `train` and `find-lr` raise one error before anything is
made. It lists all of these keys, with what replaces each. Commands that load an archive check its
readers and its model, the only blocks that they use.
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

from allennlp.commands import find_learning_rate
from allennlp.common import Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import remove_keys_from_params
from allennlp.models import archival
from allennlp.training import GradientDescentTrainer, util

TRAINER = set(inspect.signature(GradientDescentTrainer.from_partial_objects).parameters)
TRAINER -= {"model", "serialization_dir", "data_loader", "validation_data_loader", "local_rank"}
TRAINER -= {"world_size", "distributed", "ddp_accelerator", "kwargs"}
"""Parameters of the trainer except those that AllenNLP passes itself."""
# What replaces a key. A pattern matches a path, without colons, with its value and, after "of", the
# `word_splitter` next to it; its first group is the key, and `own` the block that the key belongs
# to. If its class is one of the user's own, so may be the key.
TABLE = r"""
((?P<own>dataset_reader)\.lazy): true -> data_loader.max_instances_in_memory: 1000
((?P<own>\w*dataset_reader[^:]*)\.lazy): .* -> remove it
((?P<own>[^:]*tokenizer)\.word_splitter)(\.type)?: "(simple|nltk|bert-basic|openai)" -> \2.type: "spacy"
((?P<own>[^:]*tokenizer)\.word_splitter)(\.type)?: (.*) -> \2.type: \4
((?P<own>[^:]*tokenizer)\.word_splitter\.([^:]*)): (.*) -> \2.\3: \4
((?P<own>[^:]*tokenizer)\.word_(filter|stemmer))\b.* -> remove it
((?P<own>[^:]*tokenizer)(\.type)?): "word" -> \2.type: "spacy"
((?P<own>[^:]*tokenizer)\.(start|end)_tokens): .* of just_spaces -> remove it, or use "spacy" and split_on_spaces: true for "just_spaces"
((?P<own>[^:]*tokenizer)\.(start|end)_tokens): .* of letters_digits -> remove it
((?P<own>\w*dataset_reader[^:]*)\.type): "bert-pretrained" -> \2.type: "pretrained_transformer_mismatched", with model_name for pretrained_model, max_length for max_pieces, and none of the other keys
((?P<own>model[^:]*)\.type): "bert-pretrained" -> \2.type: "pretrained_transformer_mismatched", with model_name for pretrained_model, and train_parameters and last_layer_only for requires_grad and top_layer_only, which were false by default
((?P<own>model[^:]*)\.(initializer|regularizer)): (\[.*) -> \1: {"regexes": \4}
((?P<own>model)\.similarity_function)\b.* -> model.matrix_attention
((?P<own>model[^:]*)\.(embedder_to_indexer_map|allow_unmatched_keys))\b.* -> remove it
((?P<own>model[^:]*text_field_embedder)\.(?!(token_embedders|_pretrained)\.)(\w+))\..* -> \2.token_embedders.\4
((?P<own>vocabulary)\.(directory_path|extend)): .* -> directory, with the type "from_files" or "extend"
((?P<own>trainer)\.cuda_device): \[(-?\d+)\] -> \1: \3
((?P<own>trainer)\.cuda_device): (\[.*) -> distributed.cuda_devices: \3
((?P<own>trainer)\.type): "default" -> remove it
((?P<own>trainer)\.shuffle): false -> data_loader.shuffle: false, or of its batch_sampler
((?P<own>trainer)\.(shuffle|keep_serialized_model_every_num_seconds)): .* -> remove it
((?P<own>trainer)\.num_serialized_models_to_keep): (.*) -> trainer.checkpointer.keep_most_recent_by_count: \3
((?P<own>trainer)\.model_save_interval): (.*) -> trainer.checkpointer.save_every_num_seconds: \3
((?P<own>trainer)\.(\w+_interval|log_batch_size_period|should_log_\w+)): .* -> trainer.callbacks: [{"type": "tensorboard"}], which has such keys
"""  # noqa: E501
CHANGES = [
    *(row.split(" -> ") for row in TABLE.strip().splitlines()),
    # The trainer still reads `run_sanity_checks`.
    [
        rf"((?P<own>trainer)\.(?!({'|'.join(TRAINER)}|type|run_sanity_checks)\b)\w+).*",
        f"unknown; the keys are {', '.join(sorted(TRAINER))}",
    ],
]


class OldConfigError(ConfigurationError):
    """A config has outdated keys. If there are several, each has a line of the message."""


def check(config: dict[str, Any]) -> None:
    """Raise an `OldConfigError` if a config, or a part of one, has outdated keys."""
    if lines := dict.fromkeys(_outdated(config)):
        found = "".join(f"\n  {line}" for line in lines) if len(lines) > 1 else f" {min(lines)}"
        raise OldConfigError(f"expected a config of AllenNLP 2.10.1, found{found}")


def _outdated(config: dict[str, Any]) -> Iterator[str]:
    """A line for each outdated key, `KEY -> WHAT REPLACES IT`; a line may occur several times."""
    values = Params(config).as_flat_dict()
    for key in ("iterator", "validation_iterator"):
        if key in config and _is_allennlps("", values):
            loader = _data_loader(config[key], shuffle=key == "iterator")
            yield f"{key} -> {key.replace('iterator', 'data_loader')}{loader}"
    for path, value in values.items():
        entry = f"{path}: {json.dumps(value, default=str)}"
        block, _, key = path.rpartition(".")
        splitter = f"{block}.word_splitter"
        kind = values.get(splitter, values.get(f"{splitter}.type"))
        entry += f" of {kind}" if kind and key != "word_splitter" else ""
        matches = ((re.fullmatch(pattern, entry), new) for pattern, new in CHANGES)
        match, new = next((pair for pair in matches if pair[0]), (None, ""))
        if match and _is_allennlps(match["own"], values):
            yield f"{match[1]} -> {match.expand(new)}"


def _data_loader(iterator: Any, shuffle: bool) -> str:
    """The data loader that replaces an iterator, after a colon; empty for other types."""
    if not isinstance(iterator, dict):
        iterator = {"type": iterator}
    kind, size = iterator.get("type", "bucket"), iterator.get("batch_size", 32)
    if kind == "multiprocess":
        return _data_loader(iterator.get("base_iterator", {}), shuffle)
    keys = iterator.get("sorting_keys") or ()  # pairs of a field and one of its lengths
    fields = dict.fromkeys(key[0] if isinstance(key, list) else key for key in keys)
    sampler = {"type": "bucket", "batch_size": size, "sorting_keys": list(fields)}
    sampler |= {key: iterator[key] for key in ("padding_noise",) if key in iterator}
    basic = {"batch_size": size, "shuffle": shuffle}
    loader = {"basic": basic, "bucket": {"batch_sampler": sampler}}.get(str(kind))
    others = sorted(iterator.keys() - {"type", "batch_size", "sorting_keys", "padding_noise"})
    without = f", without {', '.join(others)}" if others else ""
    return f": {json.dumps(loader)}{without}" if loader else ""


def _is_allennlps(block: str, values: dict[str, Any]) -> bool:
    """
    Whether AllenNLP reads a block of a config, because the next type of it, or of those that it is
    in, is a class of AllenNLP only, under any base class, or of AllenNLP 0.9.
    """
    while block and f"{block}.type" not in values and block not in values:
        block = block.rpartition(".")[0]
    name = values.get(f"{block}.type".lstrip("."), values.get(block))
    if not isinstance(name, str):
        return name is None
    classes = [names[name][0] for names in Registrable._registry.values() if name in names]
    homes = {kind.__module__.partition(".")[0] for kind in classes}
    ours = {"allennlp", "allennlp_models", "allennlp_today"}
    return homes <= ours if homes else name in ("word", "bert-pretrained")


_create_serialization_dir = util.create_serialization_dir
_load_dataset_readers = archival._load_dataset_readers


def _check_and_create(params: Params, *args: Any, **kwargs: Any) -> None:
    check(params.as_dict(quiet=True))
    _create_serialization_dir(params, *args, **kwargs)


def _check_and_load(config: Params, *args: Any, **kwargs: Any) -> Any:
    used = ("dataset_reader", "validation_dataset_reader", "model")
    remove_keys_from_params(config.get("model"))  # as AllenNLP does before it makes the model
    check({key: value for key, value in config.as_dict(quiet=True).items() if key in used})
    return _load_dataset_readers(config, *args, **kwargs)


util.create_serialization_dir = _check_and_create
find_learning_rate.create_serialization_dir = _check_and_create
archival._load_dataset_readers = _check_and_load
