"""
The tables of a model card:

    python -m experiments.card model.tar.gz --heldout FOLDER --train FOLDER --treebank FOLDER

The folder of held-out text has one file or folder for each kind of text. `--train` adds the overlap
of the held-out text with the training text, and `--treebank` the POS probe on UD English-EWT.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from elmo_plugin.modules.bilm import INITIAL_STATES
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import new_parser, run
from experiments.markdown import table
from experiments.perplexity import perplexity_table
from experiments.probe import probe_table

OVERLAP = 12
"""Words of a passage that is long enough to be the same passage in another text."""


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", help="archive of a bilm")
    parser.add_argument("--heldout", type=Path, required=True, help="folder of held-out texts")
    parser.add_argument("--train", help="the text that the biLM was trained on")
    parser.add_argument("--treebank", type=Path, help="a Universal Dependencies treebank")
    parser.add_argument("--states", nargs="+", default=INITIAL_STATES, choices=INITIAL_STATES)
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    arguments = parser.parse_args()
    model = load_language_model(arguments.model)
    paths = sorted(p for p in arguments.heldout.iterdir() if not p.name.startswith("."))
    corpora = {path.stem: open_corpus(path) for path in paths}
    corpora["all"] = open_corpus(arguments.heldout)

    print("\nPerplexity of the biLM on held-out text\n")
    print(perplexity_table(model, corpora, arguments.states), flush=True)
    if arguments.train:
        found = overlaps(corpora, open_corpus(arguments.train), OVERLAP)
        print(f"\n{OVERLAP}-grams of held-out text that the training text also contains (%)\n")
        print(table(("text", "found"), found.items()), flush=True)
    if arguments.treebank:
        print("\nUPOS tagging accuracy (%) of a linear classifier on frozen layers\n")
        print(probe_table(arguments.model, arguments.treebank, arguments.states, arguments.work))


def overlaps(texts: Mapping[str, EncodedCorpus], train: EncodedCorpus, n: int) -> dict[str, float]:
    """
    For each text the share of its n-grams, in percent, that `train` also contains. The n-grams are
    those of running text, across sentences, and are compared by 64-bit hashes.
    """
    number = {word: rank for rank, word in enumerate(train.words())}
    hashes = {}
    for name, text in texts.items():
        # All words that `train` lacks share a number that it does not use.
        ranks = np.array([number.get(word, len(number)) for word in text.words()])
        hashes[name] = np.concatenate(list(_ngram_hashes(text, ranks, n)))
    known = np.unique(np.concatenate(list(hashes.values())))
    is_found = np.zeros(len(known), bool)
    for block in _ngram_hashes(train, np.arange(len(number)), n):
        is_found |= np.isin(known, block)
    found = known[is_found]
    return {
        name: 100 * float(np.isin(own, found).mean()) if len(own) else 0.0
        for name, own in hashes.items()
    }


def _ngram_hashes(corpus: EncodedCorpus, ranks: np.ndarray, n: int) -> Iterator[np.ndarray]:
    """The hashes of each shard's n-grams. `ranks`: the numbers of the corpus's words."""
    weights = np.random.default_rng(n).integers(2**64, size=n, dtype=np.uint64)
    for shard in range(len(corpus.shards)):
        numbers = ranks[corpus.load_tokens(shard)].astype(np.uint64)
        hashes = np.zeros(max(0, len(numbers) - n + 1), np.uint64)
        for k, weight in enumerate(weights):
            hashes += numbers[k : k + len(hashes)] * weight  # modulo 2 ** 64
        yield hashes


if __name__ == "__main__":
    run("card", main)
