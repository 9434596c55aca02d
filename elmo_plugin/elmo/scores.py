"""The scores of sentences, as arrays and as tables."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import fail

SENTENCE_IN_ROW = "sentence_in_row"
"""The field `sentence` as a column, because the column `sentence` has the number of the row."""


class SentenceScores(NamedTuple):
    """
    The scores of a sentence w_1 .. w_n, or of the sentences of a raw text, which were read apart,
    and whose words w_1 .. w_n follow one another. Log probabilities and entropies have the base
    that was asked for.

    tokens : `list[str]`
        The words w_1 .. w_n.
    in_vocabulary : `numpy.ndarray`
        For each word whether the softmax has it, shape `(n,)`, bool. A word that it lacks has the
        probability of `<UNK>`, which stands for all such words together and is often high, so
        scores of other words are not comparable with it.
    forward : `numpy.ndarray`
        log p(w_k | w_1 .. w_{k-1}) for k = 1 .. n, and that of the end given all words, shape
        `(n + 1,)`, float64. Surprisal is its negative. A word is given the words of its sentence
        alone, and the last value is the sum over the ends of all sentences.
    backward : `numpy.ndarray`
        log p of the beginning given all words, and log p(w_k | w_{k+1} .. w_n) for k = 1 .. n,
        shape `(n + 1,)`, float64. The first value is the sum over the beginnings of all sentences.
    forward_entropy, backward_entropy : `numpy.ndarray`, optional
        The entropies of the distributions that `forward` and `backward` are from, shape `(n + 1,)`,
        with sums in the same places.
    spans : `list[tuple[int, int]]`, optional
        Of raw text, the first character of each token and the one after its last.
    words : `list[int]`, optional
        Of raw text, the number of the word that each token is part of, counted from 0. Words are
        what white space separates, so that the scores of *is* and *n't* can be added up.
    sentence : `list[int]`, optional
        Of raw text, the number of the sentence that each token is part of, counted from 0.
    """

    tokens: list[str]
    in_vocabulary: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    forward_entropy: np.ndarray | None = None
    backward_entropy: np.ndarray | None = None
    spans: list[tuple[int, int]] | None = None
    words: list[int] | None = None
    sentence: list[int] | None = None

    def fields(self) -> Iterator[tuple[str, Any]]:
        """The fields that were asked for, by the names that they have in files."""
        for name, x in self._asdict().items():
            if x is not None:
                yield (SENTENCE_IN_ROW if name == "sentence" else name), x


def joined_scores(some: list[SentenceScores]) -> SentenceScores:
    """The scores of the sentences of a row as one."""
    if len(some) == 1:
        return some[0]
    tokens = [token for x in some for token in x.tokens]
    in_vocabulary = np.concatenate([x.in_vocabulary for x in some])
    by_direction: Any = [_joined(k % 2, x) for k, x in enumerate(zip(*(x[2:6] for x in some)))]
    return SentenceScores(tokens, in_vocabulary, *by_direction)


def _joined(is_backward: int, arrays: Any) -> np.ndarray | None:
    """The numbers of several sentences in a direction, if there are any, with one boundary."""
    if arrays[0] is None:
        return None
    if is_backward:
        return np.hstack([sum(x[0] for x in arrays), *(x[1:] for x in arrays)])
    return np.hstack([*(x[:-1] for x in arrays), sum(x[-1] for x in arrays)])


def column_names(entropy: bool, raw: bool) -> list[str]:
    """The columns of a table; see `score_columns`."""
    names = ["sentence", "position", "token", "in_vocabulary", "forward", "backward"]
    names += ["forward_entropy", "backward_entropy"] if entropy else []
    return names + (["start", "end", "word", SENTENCE_IN_ROW] if raw else [])


def score_columns(
    scores: SentenceScores | Iterable[SentenceScores], numbers: Iterable[Any] | None = None
) -> dict[str, list[Any]]:
    """
    Scores as the columns of a table with one row per word, without the end and the beginning:
    `pandas.DataFrame(score_columns(scores))`. `numbers`: those of the sentences, or other labels,
    by default counted from 0, as the `position` of a word in its sentence is. Of raw text, a string
    has one number; `start` and `end` are the token's span in it, and `word` and `sentence_in_row`
    the numbers of the word and of the sentence that it is part of. Raises an `InputError` if not
    each has a number of its own.
    """
    some = [scores] if isinstance(scores, SentenceScores) else list(scores)
    labels = list(range(len(some)) if numbers is None else numbers)
    if not len(some) == len(labels) == len(set(labels)):
        expected = f"{len(some)} different labels, as after reset_index(drop=True) of a DataFrame"
        fail("numbers", expected, labels)
    first = some[0] if some else None
    names = column_names(
        first is not None and first.forward_entropy is not None,
        first is not None and first.spans is not None,
    )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, x in zip(labels, some):
        n = len(x.tokens)
        own = [[number] * n, range(n), x.tokens, x.in_vocabulary.tolist()]
        for forward, backward in ((x.forward, x.backward), x[4:6]):
            if forward is not None and backward is not None:
                own += [forward[:-1].tolist(), backward[1:].tolist()]
        if x.spans is not None:
            own += [[start for start, _ in x.spans], [end for _, end in x.spans]]
            own += [x.words, x.sentence]
        for column, values in zip(columns.values(), own, strict=True):
            column += values
    return columns
