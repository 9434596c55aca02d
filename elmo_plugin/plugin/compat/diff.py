"""
AllenNLP's command `diff` fails if a model has whole numbers, as a `bilm` has, and does not say
which file has no weights. Importing this lets it compare them, also those in the folder of a
training run and of an archive at any address, such as `pretrained://small`. Remove it when AllenNLP
does so.
"""

import os
from argparse import Namespace
from pathlib import Path

from allennlp.commands import diff
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.archive_files import GZIP_MAGIC, opened_archive, read_weights

EXPECTED = "a model.tar.gz, the folder of a training run, or a file of weights"


def _weights(argument: str, checkpoint: str, prefix: str | None) -> dict[str, Tensor]:
    path = local_path(checkpoint, EXPECTED, extract_archive="!" in checkpoint)
    if os.path.isdir(path) or _is_gzip(path):
        with opened_archive(checkpoint) as folder:
            return _comparable(read_weights(folder), prefix)
    try:
        return _comparable(diff.read_state_dict(path), prefix)
    except Exception as error:  # damage raises errors of many types
        raise InputError(f"{argument}: {checkpoint}: expected {EXPECTED}, found {error}") from error


def _comparable(state: dict[str, Tensor], prefix: str | None) -> dict[str, Tensor]:
    """The distance of two tensors is a mean, which PyTorch has of floating-point numbers only."""
    return {
        name.removeprefix(prefix or ""): x if x.is_floating_point() else x.double()
        for name, x in state.items()
    }


def _is_gzip(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def _diff(args: Namespace) -> None:
    """AllenNLP's function, with other weights."""
    one = _weights("checkpoint1", args.checkpoint1, args.strip_prefix_1)
    other = _weights("checkpoint2", args.checkpoint2, args.strip_prefix_2)
    for step in diff.checkpoint_diff(one, other, args.scale, args.threshold):
        step.display()


diff._diff = _diff
