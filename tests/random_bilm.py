"""Small biLMs with random weights, and the arrays that their weight file holds."""

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.modules import BiLM, LSTMState, SampledSoftmax
from elmo_plugin.modules.bilm import SentenceLayers
from elmo_plugin.options import BiLMOptions
from tests.oracle import State

LSTM = {
    "dim": 7,
    "projection_dim": 5,
    "n_layers": 2,
    "cell_clip": 0.6,
    "proj_clip": 0.5,
    "use_skip_connections": True,
}
CHAR_CNN = {
    "embedding": {"dim": 3},
    "filters": [[1, 3], [2, 3], [4, 2]],
    "n_highway": 1,
    "activation": "relu",
    "max_characters_per_token": 10,
}


class RandomBiLM(NamedTuple):
    """`options`: the contents of `options.json`."""

    bilm: BiLM
    options: dict[str, Any]


def random_bilm(
    lstm: dict[str, Any] | None = None, char_cnn: dict[str, Any] | None = None
) -> RandomBiLM:
    """Build a biLM from `LSTM` and `CHAR_CNN` with other values for some keys. Every parameter is
    far enough from zero to show in the result."""
    torch.manual_seed(0)
    options = {"lstm": {**LSTM, **(lstm or {})}, "char_cnn": {**CHAR_CNN, **(char_cnn or {})}}
    bilm = BiLM(BiLMOptions.from_dict(options, source="test"))
    randomize(bilm)
    return RandomBiLM(bilm.eval(), options)


def read_sentences(bilm: BiLM, tokens: Tensor, state: LSTMState) -> SentenceLayers:
    """Return the layers of a batch of sentences with their boundaries."""
    return bilm.sentences(tokens, bilm.sentence_lengths(tokens), state)


def randomize(module: torch.nn.Module, std: float = 0.6) -> None:
    """Set all parameters to normal numbers, except the vector of id 0, which is "no word"."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)
    for part in module.modules():
        if isinstance(part, torch.nn.Embedding):
            part.weight.data[0] = 0


def arrays_of(
    bilm: BiLM, folder: Path, softmax: SampledSoftmax | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays in the weight file of `bilm`, by name, in float64."""
    write_weights(bilm, folder / "weights.hdf5", softmax)
    arrays: dict[str, np.ndarray] = {}

    def read(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()].astype(np.float64)

    with h5py.File(folder / "weights.hdf5", "r") as file:
        file.visititems(read)
    return arrays


def random_state(bilm: BiLM, n_rows: int, seed: int = 1) -> LSTMState:
    """Return a state with no two numbers alike."""
    generator = torch.Generator().manual_seed(seed)
    zero = bilm.bilstm.zero_state(n_rows)
    return LSTMState(
        *(0.3 * torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in zero)
    )


def oracle_state(state: LSTMState, row: int) -> State:
    """Return one row of a state, in the form of the oracle."""
    c, h = (x[:, :, row].detach().double().numpy().copy() for x in state)
    return {(k, d): (c[k, d], h[k, d]) for k in range(len(c)) for d in (0, 1)}
