"""The mixes of biLM layers in the weights of a model."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_plugin.checks import InputError

_GAMMA = re.compile(r"(?P<mix>(?:.*\.)?scalar_mix(?:_\d+)?)\.gamma")


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
    found = {}
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
            found[match["mix"]] = Mix(s.tolist(), gamma.item())
    return found
