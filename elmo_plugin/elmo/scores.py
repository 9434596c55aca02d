"""The scores of sentences, as arrays and as tables."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


class SentenceScores(NamedTuple):
    """
    The scores of a sentence w_1 .. w_n. Log probabilities and entropies have the base that was
    asked for.

    tokens : `list[str]`
        The words w_1 .. w_n.
    in_vocabulary : `numpy.ndarray`
        For each word whether the softmax has it, shape `(n,)`, bool. A word that it lacks has the
        probability of `<UNK>`, which stands for all such words together and is often high, so
        scores of other words are not comparable with it.
    forward : `numpy.ndarray`
        log p(w_k | w_1 .. w_{k-1}) for k = 1 .. n, and that of the end given all words, shape
        `(n + 1,)`, float64. Surprisal is its negative.
    backward : `numpy.ndarray`
        log p of the beginning given all words, and log p(w_k | w_{k+1} .. w_n) for k = 1 .. n,
        shape `(n + 1,)`, float64.
    forward_entropy, backward_entropy : `numpy.ndarray`, optional
        The entropies of the distributions that `forward` and `backward` are from, shape `(n + 1,)`.
    """

    tokens: list[str]
    in_vocabulary: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    forward_entropy: np.ndarray | None = None
    backward_entropy: np.ndarray | None = None


def score_columns(
    scores: SentenceScores | Iterable[SentenceScores], first: int = 0
) -> dict[str, list[Any]]:
    """
    Scores as the columns of a table with one row per word, without the end and the beginning:
    `pandas.DataFrame(score_columns(scores))`. `sentence` is counted from `first`, and `position`,
    the word's place in it, from 0.
    """
    some = [scores] if isinstance(scores, SentenceScores) else list(scores)
    names = ["sentence", "position", "token", "in_vocabulary", "forward", "backward"]
    if some and some[0].forward_entropy is not None:
        names += ["forward_entropy", "backward_entropy"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, found in enumerate(some, start=first):
        n = len(found.tokens)
        own = [[number] * n, range(n), found.tokens, found.in_vocabulary.tolist()]
        for forward, backward in ((found.forward, found.backward), found[4:6]):
            if forward is not None and backward is not None:
                own += [forward[:-1].tolist(), backward[1:].tolist()]
        for column, values in zip(columns.values(), own, strict=True):
            column += values
    return columns
