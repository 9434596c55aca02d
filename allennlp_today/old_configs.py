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
from allennlp.models import archival
from allennlp.training import GradientDescentTrainer, util

TRAINER = set(inspect.signature(GradientDescentTrainer.from_partial_objects).parameters)
TRAINER -= {"model", "serialization_dir", "data_loader", "validation_data_loader", "local_rank"}
TRAINER -= {"world_size", "distributed", "ddp_accelerator", "kwargs"}
"""Parameters of the trainer except those that AllenNLP passes itself."""
# What replaces a key, the first group of a pattern of its path and value. If the type of an `own`
# block is a class of the user's own, the key may be one of its parameters.
TABLE = r"""
((?P<own>dataset_reader)\.lazy): true -> data_loader.max_instances_in_memory: 1000
((?P<own>\w*dataset_reader.*)\.lazy): .* -> remove it
((.*tokenizer)\.word_splitter)(\.type)?: (.*) -> \2.type: \4
((.*tokenizer)\.word_splitter\.(.*)): (.*) -> \2.\3: \4
(.*tokenizer\.word_(filter|stemmer))\b.* -> remove it
((.*tokenizer)\.type): "word" -> \2.type: "spacy"
(model.*\.(initializer|regularizer)): (\[.*) -> \1: {"regexes": \3}
((?P<own>model)\.similarity_function)\b.* -> model.matrix_attention
(model.*\.(embedder_to_indexer_map|allow_unmatched_keys))\b.* -> remove it
((?P<own>model.*text_field_embedder)\.(?!token_embedders\.)(\w+))\..* -> \2.token_embedders.\3
(vocabulary\.(directory_path|extend)): .* -> directory, with the type "from_files" or "extend"
(trainer\.cuda_device): \[(-?\d+)\] -> \1: \2
(trainer\.cuda_device): (\[.*) -> distributed.cuda_devices: \2
(trainer\.type): "default" -> remove it
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
    for key in ("iterator", "validation_iterator"):
        if key in config:
            loader = json.dumps(_data_loader(config.pop(key)))
            yield f"{key} -> {key.replace('iterator', 'data_loader')}: {loader}"
    values = Params(config).as_flat_dict()
    for path, value in values.items():
        entry = f"{path}: {json.dumps(value, default=str)}"
        matches = ((re.fullmatch(pattern, entry), new) for pattern, new in CHANGES)
        match, new = next((pair for pair in matches if pair[0]), (None, ""))
        if match and not _is_own(values.get(f"{match.groupdict().get('own')}.type")):
            yield f"{match[1]} -> {match.expand(new)}"


def _data_loader(iterator: dict[str, Any]) -> dict[str, Any]:
    size = iterator.get("batch_size", 32)
    if iterator.get("type", "bucket") != "bucket":
        return {"batch_size": size, "shuffle": True}
    fields = dict.fromkeys(field for field, _ in iterator.get("sorting_keys", ()))
    return {"batch_sampler": {"type": "bucket", "batch_size": size, "sorting_keys": list(fields)}}


def _is_own(name: str | None) -> bool:
    """Whether the type of this name is a class of the user's own."""
    classes = [names[name][0] for names in Registrable._registry.values() if name in names]
    homes = {kind.__module__.partition(".")[0] for kind in classes}
    return "." in (name or "") or (bool(homes) and not homes & {"allennlp", "allennlp_models"})


_create_serialization_dir = util.create_serialization_dir
_load_dataset_readers = archival._load_dataset_readers


def _check_and_create(params: Params, *args: Any, **kwargs: Any) -> None:
    check(params.as_dict(quiet=True))
    _create_serialization_dir(params, *args, **kwargs)


def _check_and_load(config: Params, *args: Any, **kwargs: Any) -> Any:
    used = ("dataset_reader", "validation_dataset_reader", "model")
    check({key: value for key, value in config.as_dict(quiet=True).items() if key in used})
    return _load_dataset_readers(config, *args, **kwargs)


util.create_serialization_dir = _check_and_create
find_learning_rate.create_serialization_dir = _check_and_create
archival._load_dataset_readers = _check_and_load
