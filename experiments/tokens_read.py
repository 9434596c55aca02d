"""
The perplexity of held-out text over the tokens that a biLM has read:

    python -m experiments.tokens_read NAME=ARCHIVE --read 22.7 --run "novels first" \\
      --heldout OUT/heldout --words one/vocabulary.txt other/vocabulary.txt

adds rows to `experiments/results/tokens_read.jsonl`, one for each kind of text, and draws all rows
as `docs/results/tokens_read.svg`. Without a model it only draws. With --heldout and --words it
also prints how many tokens are `<UNK>`.

Perplexities over different vocabularies cannot be compared. Here every model predicts the same
events: the words that all files of `--words` have. All others count as `<UNK>`, with the sum of
their probabilities. So the files have to include that of each model of the picture.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import new_parser, run
from experiments.markdown import table
from experiments.perplexity import perplexity
from experiments.report.pictures import save
from experiments.rows import RESULTS, Row, named_archive, read_rows, result_row, save_rows

FILE = RESULTS / "tokens_read.jsonl"
PICTURE = Path("docs/results/tokens_read.svg")
MARKERS = ("s", "o", "^", "v", "D")
"""Of the runs, in the order of their first rows."""


def texts_in(folder: Path) -> list[Path]:
    """Raises an `InputError` if the folder of held-out texts has none."""
    texts = sorted(folder.glob("*.txt"))
    if not texts:
        raise InputError(f"--heldout: {folder}: expected *.txt files, found none")
    return texts


def text_rows(arguments: argparse.Namespace) -> list[Row]:
    """One row for each text in the folder of held-out texts."""
    name, archive_file = named_archive(arguments.model)
    texts = texts_in(arguments.heldout)
    model = load_language_model(archive_file)
    words = set.intersection(*(set(read_vocabulary_file(file)) for file in arguments.words))
    rows = []
    for path in texts:
        start = time.process_time()
        found = perplexity(model, open_corpus(path), "warm", words)
        settings = {"run": arguments.run, "millions": arguments.read, "text": path.stem}
        metrics = {"perplexity": found.joint, "words": len(words)}
        rows.append(result_row(name, None, settings, metrics, start))
    return rows


def unknown_table(folder: Path, files: Sequence[str]) -> str:
    """The percentage of tokens outside each vocabulary, and outside the words that all share."""
    corpora = {path.stem: open_corpus(path) for path in texts_in(folder)}
    vocabularies = {file: set(read_vocabulary_file(file)) for file in files}
    vocabularies["all of them"] = set.intersection(*vocabularies.values())
    rows: list[list[object]] = []
    for name, known in vocabularies.items():
        rates = []
        for corpus in corpora.values():
            counts = zip(corpus.words(), corpus.counts.tolist())
            n_unknown = sum(n for word, n in counts if word not in known)
            rates.append(100 * n_unknown / corpus.num_tokens)
        rows.append([name, len(known), *rates])
    return table(["words of", "number", *corpora], rows)


def picture(rows: Sequence[Row]) -> Figure:
    """One line for each model and text, and one kind of marker for each run."""
    has_one_model = len({row["bilm"] for row in rows}) == 1
    runs = list(dict.fromkeys(row["settings"]["run"] for row in rows))
    points: dict[str, dict[tuple[float, int], float]] = {}
    for row in rows:
        text, millions, name = (row["settings"][key] for key in ("text", "millions", "run"))
        label = text if has_one_model else f"{row['bilm']}: {text}"
        points.setdefault(label, {})[millions, runs.index(name)] = row["metrics"]["perplexity"]
    markers = [MARKERS[k % len(MARKERS)] for k in range(len(runs))]
    figure = Figure(figsize=(7, 4), layout="constrained")
    panel = figure.subplots()
    panel.set_xscale("log")
    panel.set_yscale("log")
    for k, (label, found) in enumerate(points.items()):
        ordered = sorted(found)
        y = [found[point] for point in ordered]
        panel.plot([x for x, _ in ordered], y, color=f"C{k}", label=label)
        for (x, n), y_x in zip(ordered, y):
            panel.plot(x, y_x, markers[n], color=f"C{k}")
    for marker, name in zip(markers, runs):
        panel.plot([], [], marker, color="black", label=name)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_formatter("{x:g}")
        axis.set_major_formatter("{x:g}")
    panel.set_xlabel("tokens read, millions")
    panel.set_ylabel("perplexity of held-out text")
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", nargs="?", help="NAME=ARCHIVE of a bilm")
    parser.add_argument("--read", type=float, help="millions of tokens that it has read")
    parser.add_argument("--run", default="", help="name of the training run in the legend")
    parser.add_argument("--heldout", type=Path, help="folder of held-out texts")
    parser.add_argument("--words", nargs="+", help="vocabulary files")
    arguments = parser.parse_args()
    if arguments.model:
        if None in (arguments.read, arguments.heldout, arguments.words):
            parser.error("with a model, expected --read, --heldout and --words")
        save_rows(FILE, text_rows(arguments))
    if arguments.heldout and arguments.words:
        print(unknown_table(arguments.heldout, arguments.words))
    save(picture(read_rows(FILE)), PICTURE)


if __name__ == "__main__":
    run("tokens_read", main)
