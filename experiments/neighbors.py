"""
Nearest neighbors in context (Peters et al. 2018, table 4): the occurrences of *play* in a text
that are nearest to *play* in the paper's two sentences.

    python -m experiments.neighbors brown.txt small=pretrained://small

`docs/change.md` does the same for any word and any sentence.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from elmo_plugin import Elmo
from elmo_plugin.corpora import nearest
from experiments import new_parser, run
from experiments.markdown import table
from experiments.rows import RESULTS, Row, named_archive, result_row, save_rows

FILE = RESULTS / "neighbors.jsonl"
QUERIES = (
    "Chico Ruiz made a spectacular play on Alusik's grounder in the hole in the fourth and Wert "
    "came up with some good stops and showed a strong arm at third base .",
    'Olivia De Havilland signed to do a Broadway play for Garson Kanin this season , " A Gift of '
    'Time " .',
)
"""The sentences as in the Brown corpus. A sentence does not count as its own neighbor."""

WORD = "play"
K = 3


def neighbor_rows(name: str, elmo: Elmo, text: str) -> list[Row]:
    """One row per query."""
    started = time.process_time()
    uses = elmo.uses(text, {WORD: [WORD, WORD.capitalize(), WORD.upper()]}, "top")
    rows = []
    for query in QUERIES:
        words = query.split()
        vector = elmo.embed(words, "top")[words.index(WORD)]
        found = nearest(uses[uses["text"] != query], vector, K)
        settings = {"query": query, "text": Path(text).name, "layer": "top"}
        metrics = {
            "cosines": found["cosine"].tolist(),
            "sentences": [marked(*use) for use in zip(found["text"], found["position"])],
        }
        rows.append(result_row(name, elmo, settings, metrics, started))
    return rows


def marked(sentence: str, position: int, most: int = 4) -> str:
    """The word at the position in bold, with at most `most` words before it and after it."""
    words = sentence.split()
    words[position] = f"**{words[position]}**"
    start, end = max(0, position - most), position + most + 1
    parts = ["…" if start else "", *words[start:end], "…" if end < len(words) else ""]
    return " ".join(filter(None, parts))


def neighbors_table(rows: Sequence[Row]) -> str:
    """Rows as Markdown, one line per neighbor."""
    lines = []
    for row in rows:
        sentence = row["settings"]["query"]
        query = marked(sentence, sentence.split().index(WORD))
        for cosine, sentence in zip(*(row["metrics"][key] for key in ("cosines", "sentences"))):
            lines.append([row["bilm"], query, f"{cosine:.2f}", sentence.replace("|", "\\|")])
    return table(["biLM", "source", "cosine", "nearest neighbors"], lines)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("text", help="a text as in train_data_path")
    parser.add_argument("models", nargs="+", metavar="NAME=ARCHIVE")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for model in arguments.models:
        name, archive_file = named_archive(model)
        rows += neighbor_rows(name, Elmo.from_archive(archive_file), arguments.text)
    save_rows(arguments.results, rows)
    print(neighbors_table(rows))


if __name__ == "__main__":
    run("neighbors", main)
