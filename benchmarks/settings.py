"""Settings of a benchmark run, and the models that it measures."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo_plugin.modules.bilm import PRECISIONS
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from elmo_plugin.options import BiLMOptions

PUBLISHED_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """
    text : `str`, optional (default = `"docs://train"`)
        Text to read, as for `elmo_plugin.text.text_files.find_files`.
    sentences : `int`, optional (default = `96`)
        Number of sentences whose vectors are computed.
    quick : `bool`, optional (default = `False`)
        Whether to use tiny models and texts, only to check that everything works.
    threads : `int`, optional (default = `1`)
        Number of PyTorch threads, for us and for the peers.
    profile : `bool`, optional (default = `False`)
        Whether to also print our most expensive operators.
    transformer : `Path`, optional
        Folder with the files of a transformer that is measured next to the installed models.
    """

    text: str = "docs://train"
    sentences: int = 96
    quick: bool = False
    threads: int = 1
    profile: bool = False
    transformer: Path | None = None


def precisions(is_frozen: bool = False) -> dict[str, torch.dtype]:
    """The precisions in which this CPU multiplies, and their types."""
    names = ["fp32"]
    if CPU_HAS_BFLOAT16:
        names.append("bf16")
    if is_frozen and quantizes(torch.empty(0)):
        names.append("int8")
    return {name: PRECISIONS[name] or torch.float32 for name in names}


def blocks(
    dim: int, projection_dim: int, filters: list[list[int]], n_highway: int
) -> dict[str, dict[str, Any]]:
    """A model's blocks `lstm` and `char_cnn`; other sizes are the paper's."""
    return {
        "lstm": {
            "dim": dim,
            "projection_dim": projection_dim,
            "n_layers": 2,
            "cell_clip": 3.0,
            "proj_clip": 3.0,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": 16},
            "filters": filters,
            "n_highway": n_highway,
            "activation": "relu",
            "max_characters_per_token": 50,
        },
    }


# Two of the published sizes, and one for `--quick`.
SMALL = {"2x1024_128": blocks(1024, 128, PUBLISHED_FILTERS, 1)}
PUBLISHED = {"2x4096_512": blocks(4096, 512, PUBLISHED_FILTERS, 2), **SMALL}
QUICK = {"2x64_16": blocks(64, 16, [[1, 8], [2, 8], [3, 16]], 1)}


def models(settings: Settings) -> Mapping[str, dict[str, dict[str, Any]]]:
    """Blocks of the models to compare, by name."""
    return QUICK if settings.quick else PUBLISHED


def options_of(name: str, model: Mapping[str, Any]) -> BiLMOptions:
    return BiLMOptions.from_dict(model, source=name)
