"""
The mixes of biLM layers: those in the weights of any model, and those of an `Elmo`, which
`elmo_mixes.json` contains, next to bilm-tf's files, whose readers ignore it.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo_plugin.checks import InputError, check_choice, check_count, check_flag, check_number
from elmo_plugin.formats.json_and_text import read_json
from elmo_plugin.modules.bilm import INITIAL_STATES

MIXES = "elmo_mixes.json"
LARGEST = torch.finfo(torch.float32).max
"""Largest weight of a mix, because the softmax of an infinite weight is NaN."""

_GAMMA = re.compile(r"(?P<mix>(?:.*\.)?scalar_mix(?:_\d+)?)\.gamma")


class TrainedMixes(NamedTuple):
    """
    The mixes of an `Elmo`.

    state : `dict[str, Tensor]`
        Their parameters, such as `scalar_mix_0.gamma`.
    settings : `dict[str, Any]`
        The parameters of `Elmo` with which they were trained, those of `MIX_SETTINGS`.
    source : `str`
        Where the settings are, for errors.
    """

    state: dict[str, Tensor]
    settings: dict[str, Any]
    source: str = MIXES


MIX_SETTINGS: dict[str, Callable[[str, Any], object]] = {
    "num_output_representations": check_count,
    "do_layer_norm": check_flag,
    "use_top_only": check_flag,
    "initial_state": lambda name, value: check_choice(name, value, INITIAL_STATES),
}
"""The parameters of `Elmo` that change what a mix is a mix of, with their checks."""


def mix_settings(block: Mapping[str, Any], source: str) -> dict[str, Any]:
    """
    Those of `MIX_SETTINGS` that are in a block of a file. Raises an `InputError` that begins with
    `source` if one has a wrong value.
    """
    settings = {key: block[key] for key in MIX_SETTINGS if key in block}
    for key, value in settings.items():
        MIX_SETTINGS[key](f"{source}: {key}", value)
    return settings


def write_mixes(mixes: TrainedMixes, path: Path) -> None:
    """Write the mixes. Decimal numbers of JSON hold a float32 exactly."""
    numbers = {name: tensor.item() for name, tensor in mixes.state.items()}
    for name, number in numbers.items():
        check_number(name, number)
    path.write_text(json.dumps({**mixes.settings, "mixes": numbers}, indent=2) + "\n")


def read_mixes(path: Path) -> TrainedMixes:
    """Read the mixes. Raises an `InputError` that names the file and what is wrong in it."""
    content = read_json(path, "mixes")
    numbers = content.get("mixes")
    if not isinstance(numbers, dict):
        raise InputError(f"{path}: expected a block mixes, found none")
    for name, number in numbers.items():
        check_number(f"{path}: {name}", number, least=-LARGEST, most=LARGEST)
    state = {name: torch.tensor([float(x)], device="cpu") for name, x in numbers.items()}
    return TrainedMixes(state, mix_settings(content, str(path)), str(path))


class Mix(NamedTuple):
    """
    A mix of layers, gamma * sum_j s_j h_j (Peters et al. 2018, equation 1). `weights` are s_0 ..
    s_L, after the softmax, and empty for a mix with `use_top_only`. As text it is `s 0.3023 0.3155
    0.3822, gamma 1.1636`.
    """

    weights: list[float]
    gamma: float

    def __str__(self) -> str:
        weights = " ".join(f"{s_j:.4f}" for s_j in self.weights) or "top layer only"
        return f"s {weights}, gamma {self.gamma:.4f}"


def find_mixes(state: Mapping[str, Tensor]) -> dict[str, Mix]:
    """
    The mixes of any AllenNLP model by name, such as
    `_text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0`. AllenNLP's own ELMo uses the same
    names.

    `state`: the model's parameters by name, as in its `state_dict`. Raises an `InputError` if some
    are not those of a mix.
    """
    mixes = {}
    for name, gamma in state.items():
        if match := _GAMMA.fullmatch(name):
            prefix = f"{match['mix']}.scalar_parameters."
            n_layers = sum(other.startswith(prefix) for other in state)
            w = [state.get(f"{prefix}{j}", torch.zeros(0)) for j in range(n_layers)]
            if any(x.numel() != 1 for x in (*w, gamma)):
                raise InputError(
                    f"{match['mix']}: expected gamma and scalar_parameters.0, .1, ... of one "
                    "number each, found others"
                )
            s = torch.softmax(torch.tensor([w_j.item() for w_j in w]), dim=0)
            mixes[match["mix"]] = Mix(s.tolist(), gamma.item())
    return mixes
