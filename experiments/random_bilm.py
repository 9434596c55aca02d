"""
Creates an untrained biLM with the sizes of an installed model, as a control:

    python -m experiments.random_bilm OUT --like small --seed 13370 --scaled

OUT receives bilm-tf's two files and can be used as `archive_file`. The same seed gives the same
weights; with `--scaled`, differences of rounding between processors should not change them. The
warm state is that after empty sentences.

Initial weights give vectors that are far smaller than those of a trained biLM, and most of such a
vector is the same for all words. With `--scaled`, the word layer has the mean zero, and each layer
varies from word to word as much as the same layer of the trained model, on the text in `fixtures/`,
so that a task reads both with the same strength.
"""

from pathlib import Path

import numpy as np
import torch

from elmo_plugin import Elmo
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.bilm_tf.texts import read_options
from elmo_plugin.modules import BiLM
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.text.lines import read_sentences
from experiments import new_parser, run

TEXT = Path(__file__).parents[1] / "fixtures/text/train.txt"
ROUNDS = 20
"""Most times to scale a layer, which is not linear in its scale."""


def write_random_bilm(folder: Path, like: str, seed: int, *, scaled: bool = False) -> None:
    """Write bilm-tf's two files."""
    options = read_options(pretrained_files(like).options_file)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bilm = BiLM(options).eval()
    if scaled:
        scale_layers(bilm, deviations(layer_vectors(Elmo.from_pretrained(like))))
    bilm.warm_up()
    for state in (bilm.warm_state.memory, bilm.warm_state.output):
        state.copy_(torch.from_numpy(_rounded(state.numpy(), 2**-6)))
    write_model_files(folder, bilm)


def layer_vectors(elmo: Elmo) -> np.ndarray:
    """The layers of all tokens of `TEXT`, shape `(L + 1, n, 2P)`."""
    return np.concatenate(elmo.embed(list(read_sentences(TEXT)), layer="all"), axis=1)


def deviations(layers: np.ndarray) -> list[float]:
    """The standard deviation of each layer's numbers from the layer's mean vector."""
    return [float((layer - layer.mean(axis=0)).std(dtype=np.float64)) for layer in layers]


@torch.no_grad()
def scale_layers(bilm: BiLM, targets: list[float]) -> None:
    """
    Scale what the character CNN and the LSTM layers project to, so that each layer has its target
    among the L + 1 deviations, and center the first. An LSTM's own recurrence is scaled by the
    inverse, so that its gates read its output as before.

    # Raises

    `ValueError`
        If the biLM has no projections, or if an LSTM layer would have to be smaller than its
        residual.
    """
    projection, lstms = bilm.token_encoder.projection, bilm.bilstm.layers
    matrices = [lstm.projection_weight for lstm in lstms]
    if projection is None or any(matrix is None for matrix in matrices):
        raise ValueError("a scaled biLM: expected projections of the character CNN and the LSTMs")
    words = layer_vectors(Elmo(bilm))[0]
    scale = round(targets[0] / deviations(words[None])[0], 4)
    projection.weight.mul_(scale)
    projection.bias.mul_(scale)
    # Both halves of the word layer are the output of the character CNN.
    center = scale * words.mean(axis=0, dtype=np.float64)[: len(projection.bias)]
    projection.bias.sub_(torch.from_numpy(_rounded(center, 2**-13)))
    for k, (lstm, matrix) in enumerate(zip(lstms, matrices), start=1):
        assert matrix is not None
        for _ in range(ROUNDS):
            bilm.warm_up()
            before, found = layer_vectors(Elmo(bilm))[k - 1 : k + 1]
            residual = before if k > 1 and bilm.options.lstm.use_skip_connections else 0 * before
            scale = round(_scale(found - residual, residual, targets[k]), 4)
            matrix.mul_(scale)
            lstm.recurrent_weight.div_(scale)
            if scale == 1:
                break


def _rounded(x: np.ndarray, step: float) -> np.ndarray:
    """
    The numbers in multiples of `step`, because the last digits of a sum differ from processor to
    processor, and the files must not.
    """
    return np.round(x / step) * step


def _scale(own: np.ndarray, residual: np.ndarray, target: float) -> float:
    """The s > 0 for which s own + residual has the target as its deviation."""
    own, residual = own - own.mean(axis=0), residual - residual.mean(axis=0)
    a, b = np.square(own).mean(), (own * residual).mean()
    c = np.square(residual).mean() - target**2
    if c > 0:
        raise ValueError(
            f"a scaled biLM: the residual of a layer varies more than the layer: expected a "
            f"variance of at most {target**2:g}, found {c + target**2:g}"
        )
    return float((np.sqrt(b * b - a * c) - b) / a)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--like", default="small", help="an installed model")
    parser.add_argument("--seed", type=int, default=13370)
    parser.add_argument("--scaled", action="store_true", help="scale its layers like those of LIKE")
    arguments = parser.parse_args()
    write_random_bilm(arguments.out, arguments.like, arguments.seed, scaled=arguments.scaled)


if __name__ == "__main__":
    run("random_bilm", main)
