"""
AllenNLP's command `evaluate` opens its output files only after it has evaluated, ignores
`--batch-size 0`, does not name the argument that has no such GPU or is no JSON, and fails with an
error about `NoneType` if the archive has no data loader. Importing this makes each a clear error,
before anything is evaluated. Remove it when AllenNLP does so.
"""

from functools import wraps
from inspect import signature
from typing import Any

from allennlp.commands import evaluate
from allennlp.common.checks import ConfigurationError
from allennlp.models import Archive

from elmo_plugin.checks import check_count, device_named
from elmo_plugin.files.atomic_write import check_can_write
from elmo_plugin.formats.small_files import parse_json

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
    if mapping := given.get("embedding_sources_mapping"):
        parse_json(mapping, "--embedding-sources-mapping", "a mapping")
    if (batch_size := given.get("batch_size")) is not None:
        check_count("--batch-size", batch_size)
    for name, argument in OUTPUTS.items():
        files = given.get(name)
        for file in [] if files is None else files.split(","):
            check_can_write(argument, file)
    return _evaluate(*args, **kwargs)


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
