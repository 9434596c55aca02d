"""
What a precision costs: the cosine of each word's vectors with those in fp32, for each layer.

    python -m experiments.precision brown.txt wikinews.txt --model small

Each text is one sentence a line with tokens separated by whitespace, of which `--sentences` evenly
spread ones are read.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmo_plugin import Elmo
from elmo_plugin.checks import check_choice
from elmo_plugin.modules.bilm import PRECISIONS
from elmo_plugin.text.lines import read_sentences
from experiments import new_parser, run
from experiments.markdown import table
from experiments.rows import layer_names


def cosines(model: str, precision: str, sentences: list[list[str]]) -> np.ndarray:
    """The cosines with fp32, shape `(L + 1, N)`."""
    exact, other = (Elmo.from_archive(model, precision=x) for x in ("fp32", precision))
    check_choice("precision on this machine", other.bilm.precision, [precision])
    exact, rounded = (elmo.embed(sentences, layer="all") for elmo in (exact, other))
    a, b = (np.concatenate(list(x), axis=1).astype(np.float64) for x in (exact, rounded))
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def lines(model: str, text: Path, n_sentences: int) -> Iterator[list[str]]:
    """A line of the table for each precision: mean and lowest cosine of each layer."""
    sentences = [sentence for sentence in read_sentences(str(text)) if sentence]
    sentences = sentences[:: max(1, len(sentences) // n_sentences)][:n_sentences]
    for precision in PRECISIONS:
        if precision != "fp32":
            found = cosines(model, precision, sentences)
            cells = (f"{layer.mean():.5f} ({layer.min():.3f})" for layer in found)
            yield [text.name, f"{found.shape[1]:,}", precision, *cells]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--model", default="small", help="anything that `archive_file` accepts")
    parser.add_argument("--sentences", type=int, default=500)
    arguments = parser.parse_args()
    rows = [
        x for text in arguments.texts for x in lines(arguments.model, text, arguments.sentences)
    ]
    names = layer_names(len(rows[0]) - 3)[:-1]
    print(table(["text", "tokens", "precision", *names], rows))


if __name__ == "__main__":
    run("precision", main)
