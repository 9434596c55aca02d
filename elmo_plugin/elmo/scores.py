"""The scores of sentences, as arrays and as tables."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import InputError, check_count, fail, named, shown, whole_span
from elmo_plugin.text.advice import advised
from elmo_plugin.text.forms import named_rows, named_spans
from elmo_plugin.text.places import CheckedPlaces
from elmo_plugin.text.sentence import Row, places_of_row

BASES = {2: math.log(2), "e": 1.0}
"""The bases of logarithms, and their natural logarithms."""

SENTENCE_IN_ROW = "sentence_in_row"
"""The field `sentence` as a column, because the column `sentence` has the number of the row."""

DIRECTIONS = ("both", "forward", "backward")

BY_DIRECTION = [f"{d}{kind}" for kind in ("", "_entropy", "_rank") for d in DIRECTIONS[1:]]
"""The fields that have a number for each word and, at the end or first, for the boundary."""


class SentenceScores(NamedTuple):
    """
    The scores of a sentence w_1 .. w_n, or of the sentences of a raw text: they are scored
    separately, and their words w_1 .. w_n follow one another. Log probabilities and entropies are
    in the base of the call.

    tokens : `list[str]`
        The words w_1 .. w_n.
    in_vocabulary : `numpy.ndarray`
        Whether each word is in the softmax vocabulary, shape `(n,)`, bool. A word outside it has
        the probability of `<UNK>`, which stands for all such words together and is often high, so
        its scores cannot be compared with the scores of other words.
    forward : `numpy.ndarray`
        log p(w_k | w_1 .. w_{k-1}) for k = 1 .. n, and log p of the end given all words, shape
        `(n + 1,)`, float64. Surprisal is its negative. The context of a word is its own sentence,
        and the last value is the sum over the ends of all sentences.
    backward : `numpy.ndarray`
        log p of the beginning given all words, and log p(w_k | w_{k+1} .. w_n) for k = 1 .. n,
        shape `(n + 1,)`, float64. The first value is the sum over the beginnings of all sentences.
    forward_entropy, backward_entropy : `numpy.ndarray`, optional
        The entropies of the distributions that `forward` and `backward` are from, shape `(n + 1,)`,
        with the same sums.
    spans : `list[tuple[int, int]]`, optional
        Of raw text, the start and the exclusive end of each token, in characters.
    words : `list[int]`, optional
        Of raw text, the index of the word that each token is part of, counted from 0. Words are
        separated by whitespace, so that the scores of *is* and *n't* can be added up.
    sentence : `list[int]`, optional
        Of raw text or several sentences, the index of the sentence that each token is part of,
        counted from 0.
    forward_rank, backward_rank : `numpy.ndarray`, optional
        The ranks in these distributions, 1 for the most probable word, shape `(n + 1,)`, float64,
        with the same sums.
    base : `int | str`
        The base of the logarithms.
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
    forward_rank: np.ndarray | None = None
    backward_rank: np.ndarray | None = None
    base: int | str = 2

    @property
    def surprisal(self) -> np.ndarray:
        """-log2 p(w_k | w_1 .. w_{k-1}) of each word in bits, shape `(n,)`, for any `base`."""
        return -self.forward[:-1] * (BASES[self.base] / BASES[2])

    @property
    def n_predictions(self) -> int:
        """
        The number of predictions in each direction, whose sum is that of `forward` or `backward`:
        one for each word and one for each sentence. Means and perplexities divide by it.
        """
        return len(self.tokens) + len(set(self.sentence or [0]))

    def region(self, start: int, end: int) -> float:
        """
        The sum of `surprisal` over the tokens of raw text that have a character from `start` to
        before `end`, also those that are only partly in the region. An empty region, whose `start`
        is its `end`, has the sum 0; NaN if both are missing. Raises an `InputError` if there are
        characters but no token in it, if it ends after the last token, or if the scores are not of
        raw text. See `regions` for several rows.
        """
        return float(regions(self, [start], [end])[0])

    def _sums(
        self, name: str, start: Any, end: Any, after: int, checked: CheckedPlaces
    ) -> np.ndarray:
        """
        The sums of the region `name` and of the words after it; see `regions`. Shape
        `(1 + after,)`.
        """
        sums = np.full(1 + after, np.nan)
        if {str(start), str(end)} <= {"None", "nan", "NaT", "<NA>"}:  # missing values of columns
            return sums
        if self.spans is None:
            raise InputError("region: expected the scores of raw text, by raw=True, found others")
        first, last = np.array(self.spans, dtype=int).reshape(-1, 2).T
        start, end = whole_span("region", "characters", start, end, last.max(initial=0))
        inside = (first < end) & (start < last) & (start < end)
        if start < end and not inside.any():
            fail("region", "characters of a token", (start, end))
        if inside.any():
            whole = int(first[inside].min()), int(last[inside].max())
            is_cut = whole[0] < start or end < whole[1]
            checked.add(name, self._text if is_cut else "", self.spans, (start, end), whole)
        words, sentence = np.array(self.words), np.array(self.sentence)
        # An empty region is in the sentence of the token that begins there.
        own = sentence == sentence[first < max(end, start + 1)].max(initial=0)
        following = np.setdiff1d(words[own], words[first < end])[:after]
        masks = [inside, *(own & (words == word) for word in following)]
        sums[: len(masks)] = [self.surprisal[mask].sum() for mask in masks]
        return sums

    @property
    def _text(self) -> str:
        """Raw text of these tokens, which has spaces instead of other characters."""
        spans = self.spans or ()
        ends = [start for start, _ in spans[1:]] + [end for _, end in spans[-1:]]
        parts = (
            token.ljust(end - start) for token, (start, _), end in zip(self.tokens, spans, ends)
        )
        return " " * (spans[0][0] if spans else 0) + "".join(parts)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """The fields that were asked for and `surprisal`, by the names that they have in files."""
        for name, x in (*self._asdict().items(), ("surprisal", self.surprisal)):
            if x is not None and name != "base":
                yield (SENTENCE_IN_ROW if name == "sentence" else name), x


def scores_in(scores: Any) -> list[SentenceScores]:
    """One or several scores as a list. Raises an `InputError` for anything else."""
    if isinstance(scores, SentenceScores):
        return [scores]
    expected = "expected what LanguageModel.score returns"
    rows = list(named_rows(scores, f"scores: {expected}"))
    for name, x in rows:
        if not isinstance(x, SentenceScores):
            raise InputError(f"scores: {name}: {expected}, found {shown(x)}")
    return [x for _, x in rows]


@advised()
def regions(scores: Any, start: Any, end: Any, after: int = 0) -> np.ndarray:
    """
    The surprisal of a critical region of raw text in each row, and of the words after it.

    # Parameters

    scores : `SentenceScores | Iterable[SentenceScores]`
        The scores of N rows of raw text.
    start, end : `Iterable`
        The first character of each region and the one after its last, such as columns of a
        DataFrame. A row in which both are missing has no region.
    after : `int`, optional (default = `0`)
        How many words after each region to measure too. Words are what whitespace separates, with
        their punctuation. The first one begins at `end` or later.

    # Returns

    `numpy.ndarray`
        The `SentenceScores.region` of each row, in bits, shape `(N,)`, float64. With `after`, shape
        `(N, 1 + after)`: the region, and then each of the words after it. Words after the last
        one of the region's sentence are NaN, and so is everything in a row without a region.

    # Raises

    `InputError`
        As `SentenceScores.region`, with the name of the row.
    """
    after = check_count("after", after, least=0)
    some = scores_in(scores)
    sums = np.empty((len(some), 1 + after))
    checked = CheckedPlaces(is_raw=True)
    for k, (row, first, last) in enumerate(named_spans(start, end, len(some))):
        with named(row):
            sums[k] = some[k]._sums(row, first, last, after, checked)
    checked.end()
    return sums if after else sums[:, 0]


def joined_scores(row: Row, some: list[SentenceScores]) -> SentenceScores:
    """The scores of a row from those of its sentences."""
    is_raw = row[0].spans is not None
    places = places_of_row(row) if is_raw or len(row) > 1 else {}
    if places and not is_raw:
        places = {"sentence": places["sentence"]}
    if len(some) == 1:
        return some[0]._replace(**places)
    tokens = [token for x in some for token in x.tokens]
    in_vocabulary = np.concatenate([x.in_vocabulary for x in some])
    own: Any = {name: _joined(name, [getattr(x, name) for x in some]) for name in BY_DIRECTION}
    return SentenceScores(tokens, in_vocabulary, base=some[0].base, **own, **places)


def _joined(name: str, arrays: Any) -> np.ndarray | None:
    """The numbers of several sentences in a direction, if there are any, with one boundary."""
    if arrays[0] is None:
        return None
    if name.startswith("backward"):
        return np.hstack([sum(x[0] for x in arrays), *(x[1:] for x in arrays)])
    return np.hstack([*(x[:-1] for x in arrays), sum(x[-1] for x in arrays)])
