"""
`elmo_mixes.json`: the trained mixes of an `Elmo`, next to bilm-tf's files, whose readers ignore it.
"""

import json
from pathlib import Path

import torch

from elmo_plugin.checks import InputError, check_number
from elmo_plugin.formats.found import TrainedMixes, mix_settings
from elmo_plugin.formats.json_file import read_json

MIXES = "elmo_mixes.json"
LARGEST = torch.finfo(torch.float32).max
"""Largest weight of a mix, because the softmax of an infinite weight is NaN."""


def write_mixes(mixes: TrainedMixes, path: Path) -> None:
    """Write the mixes. Decimal numbers of JSON hold a float32 exactly."""
    numbers = {name: tensor.item() for name, tensor in mixes.state.items()}
    for name, number in numbers.items():
        check_number(f"{path}: {name}", number)
    path.write_text(json.dumps({**mixes.settings, "mixes": numbers}, indent=2) + "\n")


def read_mixes(path: Path) -> TrainedMixes:
    """Read the mixes. Raises an `InputError` that names the file and what is wrong in it."""
    found = read_json(path, "mixes")
    numbers = found.get("mixes")
    if not isinstance(numbers, dict):
        raise InputError(f"{path}: expected a block mixes, found none")
    for name, number in numbers.items():
        check_number(f"{path}: {name}", number, least=-LARGEST, most=LARGEST)
    state = {name: torch.tensor([float(x)], device="cpu") for name, x in numbers.items()}
    return TrainedMixes(state, mix_settings(found, str(path)))
