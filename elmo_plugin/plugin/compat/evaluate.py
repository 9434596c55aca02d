"""
AllenNLP's command `evaluate` opens its output files only after it has evaluated, ignores
`--batch-size 0`, and does not name the argument that has no such GPU, is no JSON or is not in the
model's output. If the archive has no data loader, its error is about `NoneType`. Importing this
checks its arguments, if possible before anything is loaded. Remove it when AllenNLP does so.
"""

from functools import wraps
from inspect import signature
from typing import Any

from allennlp.commands import evaluate
from allennlp.common.checks import ConfigurationError
from allennlp.models import Archive

from elmo_plugin.checks import InputError, check_count
from elmo_plugin.elmo.arguments import check_can_write, device_named
from elmo_plugin.plugin.errors import json_object

_evaluate = evaluate.evaluate_from_archive
_load_archive = evaluate.load_archive
OUTPUTS = {
    "metrics_output_file": "--output-file",
    "predictions_output_file": "--predictions-output-file",
}
DATA_LOADERS = ("validation_data_loader", "data_loader")


@wraps(_evaluate)
def _evaluate_after_checks(*args: Any, **kwargs: Any) -> dict[str, Any]:
    given = signature(_evaluate).bind(*args, **kwargs).arguments
    device_named("--cuda-device", given.get("cuda_device", -1))
    json_object("--embedding-sources-mapping", given.get("embedding_sources_mapping"))
    if (batch_size := given.get("batch_size")) is not None:
        check_count("--batch-size", batch_size)
    for name, argument in OUTPUTS.items():
        files = given.get(name)
        for file in [] if files is None else files.split(","):
            check_can_write(argument, file)
    key = given.get("batch_weight_key")
    try:
        return _evaluate(*args, **kwargs)
    except KeyError as error:
        if key is None or error.args != (key,):
            raise
        raise InputError(
            f"--batch-weight-key: expected a key of the model's output, found {key!r}"
        ) from error


@wraps(_load_archive)
def _load_archive_with_data_loader(*args: Any, **kwargs: Any) -> Archive:
    archive = _load_archive(*args, **kwargs)
    if all(archive.config.get(key) is None for key in DATA_LOADERS):
        raise ConfigurationError(
            f"expected {' or '.join(DATA_LOADERS)} in the archive's config, found neither; add one "
            "by --overrides"
        )
    return archive


evaluate.evaluate_from_archive = _evaluate_after_checks
evaluate.load_archive = _load_archive_with_data_loader
