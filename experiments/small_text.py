"""
The training and held-out text of the models in the package, from folders of tokenized text:

    python -m experiments.small_text SOURCES OUT

SOURCES has the folders eltec and wikipedia (each with train and dev), openstax, masc and wikinews,
with one sentence per line. OUT/train receives pieces of 200 consecutive sentences in an order drawn
with a fixed seed, so that every part of an epoch contains every kind of text. It contains each
piece twice, except Wikipedia's, which would otherwise be three quarters of the text. OUT/heldout
receives one file per kind: pieces of 50 sentences of eltec/dev, of wikipedia/dev and of the last
twentieth of each other file, none of which is in OUT/train.
"""

import random
from pathlib import Path

from experiments import new_parser

PIECE, HELDOUT_PIECE = 200, 50
HELDOUT_TOKENS = {
    "eltec": 60_000,
    "openstax": 50_000,
    "masc": 30_000,
    "wikinews": 15_000,
    "wikipedia": 150_000,
}
REPEATS = {"wikipedia": 1}
"""How often a kind of text occurs in the training text, if not twice."""
N_FILES = 16

Piece = list[str]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    draw = random.Random(13370)
    train: list[Piece] = []
    for kind, n_tokens in HELDOUT_TOKENS.items():
        used, heldout = split(arguments.sources / kind)
        train += used * REPEATS.get(kind, 2)
        draw.shuffle(heldout)
        write(arguments.out / "heldout" / f"{kind}.txt", first_tokens(heldout, n_tokens))
    draw.shuffle(train)
    for k in range(N_FILES):
        part = train[k * len(train) // N_FILES : (k + 1) * len(train) // N_FILES]
        write(arguments.out / "train" / f"{k:02d}.txt", part)


def split(folder: Path) -> tuple[list[Piece], list[Piece]]:
    """The training and the held-out pieces of a kind of text."""
    if (folder / "dev").is_dir():
        return pieces(folder / "train", PIECE), pieces(folder / "dev", HELDOUT_PIECE)
    used, heldout = [], []
    for file in sorted(folder.rglob("*.txt")):
        lines = read(file)
        end = len(lines) * 19 // 20
        used += cut(lines[:end], PIECE)
        heldout += cut(lines[end:], HELDOUT_PIECE)
    return used, heldout


def pieces(folder: Path, size: int) -> list[Piece]:
    return [piece for file in sorted(folder.glob("*.txt")) for piece in cut(read(file), size)]


def read(file: Path) -> list[str]:
    return [line for line in file.read_text("utf-8").split("\n") if line.strip()]


def cut(lines: list[str], size: int) -> list[Piece]:
    return [lines[k : k + size] for k in range(0, len(lines), size)]


def first_tokens(pieces: list[Piece], n_tokens: int) -> list[Piece]:
    """The first pieces with `n_tokens` tokens in total, or all pieces."""
    found = 0
    for k, piece in enumerate(pieces):
        if found >= n_tokens:
            return pieces[:k]
        found += sum(len(line.split()) for line in piece)
    return pieces


def write(file: Path, pieces: list[Piece]) -> None:
    """Write each piece as a document, separated by empty lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join("\n".join(piece) for piece in pieces) + "\n", "utf-8")


if __name__ == "__main__":
    main()
