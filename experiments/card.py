"""
The tables of a model card:

    python -m experiments.card model.tar.gz --heldout FOLDER --treebank FOLDER

The folder of held-out text has one file or folder for each kind of text. `--treebank` adds the POS
probe on UD English-EWT.
"""

from pathlib import Path
from typing import Any

from allennlp.models import Model

from elmo_plugin.modules.bilm import INITIAL_STATES
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import new_parser, run
from experiments.perplexity import perplexity_table
from experiments.probe import probe_table


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", help="archive of a bilm")
    parser.add_argument("--heldout", type=Path, required=True, help="folder of held-out texts")
    parser.add_argument("--treebank", type=Path, help="a Universal Dependencies treebank")
    parser.add_argument("--states", nargs="+", default=INITIAL_STATES, choices=INITIAL_STATES)
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    arguments = parser.parse_args()
    model: Any = Model.from_archive(arguments.model)
    paths = sorted(p for p in arguments.heldout.iterdir() if not p.name.startswith("."))
    corpora = {path.stem: open_corpus(path) for path in paths}
    corpora["all"] = open_corpus(arguments.heldout)

    print("\nPerplexity of the biLM on held-out text\n")
    print(perplexity_table(model, corpora, arguments.states), flush=True)
    if arguments.treebank:
        print("\nUPOS tagging accuracy (%) of a linear classifier on frozen layers\n")
        print(probe_table(arguments.model, arguments.treebank, arguments.states, arguments.work))


if __name__ == "__main__":
    run("card", main)
