"""The text that all models are trained on, and the treebank of the probe."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_plugin.checks import InputError
from experiments.probe import Tagged, probe_accuracy


class Text(NamedTuple):
    """Tokenized sentences, and the words that occur three times in those for training."""

    train: list[list[str]]
    heldout: list[list[str]]
    words: list[str]


def read_text(folder: Path, n_tokens: int | None) -> Text:
    """
    The text of a folder; `n_tokens`: the size of the training text, by default all. Raises
    `InputError` without text.
    """
    files = [
        [line.split() for line in file.read_text("utf-8").splitlines() if line.strip()]
        for file in sorted(folder.glob("*.txt"))
    ]
    parts = [lines[: len(lines) * 19 // 20] for lines in files]
    heldout = [s for lines, part in zip(files, parts) for s in lines[len(part) :]]
    every = sum(len(s) for part in parts for s in part)
    if not every:
        raise InputError(f"{folder}: expected text in files *.txt, found none")
    share = min(1.0, n_tokens / every) if n_tokens else 1.0
    train = [s for part in parts for s in part[: round(share * len(part))]]
    counts = Counter(word for s in train for word in s)
    return Text(train, heldout, [w for w, n in counts.most_common() if n >= 3])


def n_counted(text: Text) -> int:
    """The number of words of the vocabulary and ends of sentences in the held-out text."""
    known = set(text.words)
    return sum(1 + sum(word in known for word in s) for s in text.heldout)


def probe(parts: Sequence[np.ndarray], treebank: Sequence[Tagged]) -> float:
    """The accuracy of the probe, in percent, from the vectors of the sets of a treebank."""
    train, dev = treebank
    return probe_accuracy(parts[0], train.tags, parts[1], dev.tags)


def halved(treebank: tuple[Tagged, Tagged]) -> list[Tagged]:
    """A treebank with every second sentence of its training set."""
    (sentences, tags), dev = treebank
    starts = np.cumsum([0, *map(len, sentences)])
    kept = range(0, len(sentences), 2)
    of_kept = [tag for k in kept for tag in tags[starts[k] : starts[k + 1]]]
    return [Tagged([sentences[k] for k in kept], of_kept), dev]
