"""
The perplexity of held-out text over the tokens that a biLM has read:

    python -m experiments.tokens_read MODEL --read 22.7 --run "novels first" \\
      --heldout OUT/heldout --words one/vocabulary.txt other/vocabulary.txt

adds rows to `experiments/results/tokens_read.jsonl`, one for each kind of text, and draws all rows
as `docs/results/tokens_read.svg`. Without MODEL it only draws.

Perplexities over different vocabularies cannot be compared. Here every model predicts the same
events: the words that all files of `--words` have. All others count as `<UNK>`, with the sum of
their probabilities.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from allennlp.common.file_utils import cached_path
from matplotlib.figure import Figure

from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import run
from experiments.perplexity import perplexity
from experiments.report.pictures import save
from experiments.rows import RESULTS, Row, read_rows, result_row, save_rows

FILE = RESULTS / "tokens_read.jsonl"
PICTURE = Path("docs/results/tokens_read.svg")


def text_rows(arguments: argparse.Namespace) -> list[Row]:
    """One row for each text in the folder of held-out texts."""
    model = load_language_model(cached_path(arguments.model))
    words = set.intersection(*(set(read_vocabulary_file(file)) for file in arguments.words))
    rows = []
    for path in sorted(arguments.heldout.glob("*.txt")):
        start = time.process_time()
        found = perplexity(model, open_corpus(path), "warm", words)
        settings = {"run": arguments.run, "millions": arguments.read, "text": path.stem}
        metrics = {"perplexity": found.joint, "words": len(words)}
        rows.append(result_row("small", None, settings, metrics, time.process_time() - start))
    return rows


def picture(rows: Sequence[Row]) -> Figure:
    """One line for each text and run."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        settings: Mapping[str, str | float] = row["settings"]
        line = lines.setdefault((str(settings["text"]), str(settings["run"])), [])
        line.append((float(settings["millions"]), float(row["metrics"]["perplexity"])))
    texts, runs = (list(dict.fromkeys(key[k] for key in lines)) for k in (0, 1))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    panel = figure.subplots()
    for (text, name), points in lines.items():
        xs, ys = zip(*sorted(points))
        color, style = f"C{texts.index(text)}", ("o-", "s--", "^:", "v-.")[runs.index(name) % 4]
        panel.plot(xs, ys, style, color=color, markersize=4)
    for k, text in enumerate(texts):
        panel.plot([], [], color=f"C{k}", label=text)
    for k, name in enumerate(runs):
        panel.plot([], [], ("o-", "s--", "^:", "v-.")[k % 4], color="black", label=name)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("tokens read, millions")
    panel.set_ylabel("perplexity of held-out text")
    panel.legend(bbox_to_anchor=(1.02, 1.0), loc="upper left")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", help="archive of a bilm")
    parser.add_argument("--read", type=float, help="millions of tokens that it has read")
    parser.add_argument("--run", default="", help="name of the training run in the legend")
    parser.add_argument("--heldout", type=Path, help="folder of held-out texts")
    parser.add_argument("--words", nargs="+", help="vocabulary files")
    arguments = parser.parse_args()
    if arguments.model:
        if None in (arguments.read, arguments.heldout, arguments.words):
            parser.error("with MODEL, expected --read, --heldout and --words")
        save_rows(FILE, text_rows(arguments))
    save(picture(read_rows(FILE)), PICTURE)


if __name__ == "__main__":
    run("tokens_read", main)
