"""
Creates an untrained biLM with the sizes of a model in the package, as a control:

    python -m experiments.random_bilm OUT --like small --seed 13370 --scaled

OUT receives bilm-tf's two files and can be used as `archive_file`. The same seed gives the same
weights. The warm state is that after empty sentences.

Initial weights give vectors that are far smaller than those of a trained biLM. With `--scaled`,
each layer has the standard deviation of the same layer of the trained model, on the text in
`fixtures/`, so that a task reads both with the same strength.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from elmo_plugin import Elmo
from elmo_plugin.formats.bilm_tf.options_file import read_options, write_options
from elmo_plugin.formats.bilm_tf.weight_file import write_weights
from elmo_plugin.modules import BiLM
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.text.lines import read_sentences
from experiments import run

TEXT = Path(__file__).parents[1] / "fixtures/text/train.txt"


def write_random_bilm(folder: Path, like: str, seed: int, *, scaled: bool = False) -> None:
    """Write bilm-tf's two files, the options last, so that a folder with options is complete."""
    options = read_options(pretrained_files(like).options_file)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bilm = BiLM(options).eval()
    bilm.warm_up()
    if scaled:
        scale_layers(bilm, deviations(layer_vectors(Elmo.from_pretrained(like))))
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(bilm, folder / "weights.hdf5")
    write_options(options, folder / "options.json")


def layer_vectors(elmo: Elmo) -> np.ndarray:
    """The layers of all tokens of `TEXT`, shape `(L + 1, n, 2P)`."""
    return np.concatenate(elmo.embed(list(read_sentences(TEXT)), layer="all"), axis=1)


def deviations(layers: np.ndarray) -> list[float]:
    """The standard deviation of each layer's numbers, as in `docs/analyses.md`."""
    return [float(layer.std(dtype=np.float64)) for layer in layers]


@torch.no_grad()
def scale_layers(bilm: BiLM, targets: list[float]) -> None:
    """
    Scale what the character CNN and the LSTM layers project to, so that each layer has its target
    among the L + 1 deviations. What reads a scaled layer is scaled by the inverse, so that the
    LSTMs' gates stay as they were.

    # Raises

    `ValueError`
        If the biLM has no projections, or if an LSTM layer would have to be smaller than its
        residual.
    """
    projection, lstms = bilm.token_encoder.projection, bilm.bilstm.layers
    matrices = [lstm.projection_weight for lstm in lstms]
    if projection is None or any(matrix is None for matrix in matrices):
        raise ValueError("a scaled biLM: expected projections of the character CNN and the LSTMs")
    first = deviations(layer_vectors(Elmo(bilm)))
    projection.weight.mul_(targets[0] / first[0])
    projection.bias.mul_(targets[0] / first[0])
    for k, (lstm, matrix) in enumerate(zip(lstms, matrices), start=1):
        assert matrix is not None
        lstm.input_weight.mul_(first[k - 1] / targets[k - 1])
        bilm.warm_up()
        before, found = layer_vectors(Elmo(bilm))[k - 1 : k + 1]
        residual = before if k > 1 and bilm.options.lstm.use_skip_connections else 0 * before
        scale = _scale(found - residual, residual, targets[k])
        matrix.mul_(scale)
        lstm.recurrent_weight.div_(scale)
    bilm.warm_up()


def _scale(own: np.ndarray, residual: np.ndarray, target: float) -> float:
    """The s > 0 for which s own + residual has the target as its deviation."""
    own, residual = own - own.mean(), residual - residual.mean()
    a, b = np.square(own).mean(), (own * residual).mean()
    c = np.square(residual).mean() - target**2
    if c > 0:
        raise ValueError(
            f"a scaled biLM: the residual of a layer varies more than the layer: expected a "
            f"variance of at most {target**2:g}, found {c + target**2:g}"
        )
    return float((np.sqrt(b * b - a * c) - b) / a)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--like", default="small", help="a model in the package")
    parser.add_argument("--seed", type=int, default=13370)
    parser.add_argument("--scaled", action="store_true", help="scale its layers like those of LIKE")
    arguments = parser.parse_args()
    write_random_bilm(arguments.out, arguments.like, arguments.seed, scaled=arguments.scaled)


if __name__ == "__main__":
    run("random_bilm", main)
