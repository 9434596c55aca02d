"""
The parameters of AllenNLP's own `Elmo`, by its names, which appear only here. It is the same model
as ours: the highway layers have both parts in one matrix, with the opposite gate, and the LSTM has
the gates in another order, with the 1 of the forget gate added to its bias.
"""

import re

import torch
from torch import Tensor

CHARACTERS = "_elmo_lstm._token_embedder._char_embedding_weights"
CACHED_WORDS = "_elmo_lstm._word_embedding.weight"

OF_LSTM = {
    "input_linearity.weight": "input_weight",
    "state_linearity.weight": "recurrent_weight",
    "state_linearity.bias": "bias",
    "state_projection.weight": "projection_weight",
}
"""Our names of the LSTMs' weights by those of AllenNLP, which ELMoForManyLangs has too."""

_ENCODER = re.compile(
    r"_elmo_lstm\._token_embedder\.(?:"
    r"(?P<characters>_char_embedding_weights)|"
    r"char_conv_(?P<convolution>\d+)\.(?P<of_convolution>weight|bias)|"
    r"_highways\._layers\.(?P<highway>\d+)\.(?P<of_highway>weight|bias)|"
    r"_projection\.(?P<of_projection>weight|bias))"
)
_LSTM = re.compile(
    r"_elmo_lstm\._elmo_lstm\.(?P<direction>forward|backward)_layer_(?P<layer>\d+)\."
    rf"(?P<name>{'|'.join(map(re.escape, OF_LSTM))})"
)


def take_allennlp_weights(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """
    Remove the biLM of AllenNLP's `Elmo` from `state`, and return its weights by the names of
    `BiLM`, without a warm state, which AllenNLP does not have. Names that are not AllenNLP's stay.
    """
    state.pop(prefix + CACHED_WORDS, None)  # computed from the characters
    found: dict[str, Tensor] = {}
    directions: dict[str, list[Tensor]] = {}
    for key in [key for key in state if key.startswith(f"{prefix}_elmo_lstm.")]:
        name = key[len(prefix) :]
        if match := _ENCODER.fullmatch(name):
            found.update(_of_encoder(match, state.pop(key)))
        elif match := _LSTM.fullmatch(name):
            ours = f"bilstm.layers.{match['layer']}.{OF_LSTM[match['name']]}"
            both = directions.setdefault(ours, [])
            # The forward direction comes first, in whatever order the names do.
            place = 0 if match["direction"] == "forward" else len(both)
            both.insert(place, _of_lstm(OF_LSTM[match["name"]], state.pop(key)))
    return found | {name: torch.stack(both) for name, both in directions.items()}


def _of_encoder(match: re.Match[str], tensor: Tensor) -> dict[str, Tensor]:
    if match["characters"]:
        return {"token_encoder.char_embedding.weight": tensor}
    if k := match["convolution"]:
        return {f"token_encoder.convolutions.{k}.{match['of_convolution']}": tensor}
    if k := match["highway"]:
        transform, gate = tensor.chunk(2)
        parts = {"transform": transform, "carry": -gate}
        name = f"token_encoder.highways.{k}"
        return {f"{name}.{part}.{match['of_highway']}": x for part, x in parts.items()}
    return {f"token_encoder.projection.{match['of_projection']}": tensor}


def _of_lstm(name: str, tensor: Tensor) -> Tensor:
    if name == "projection_weight":
        return tensor.t()
    i, f, j, o = tensor.chunk(4)  # the input, forget, candidate and output gates
    return torch.cat([i, j, f - 1 if name == "bias" else f, o]).t()
