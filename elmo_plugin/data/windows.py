"""
An encoded corpus as rows of running text, cut into windows of a few time steps.

The sentences of an epoch are dealt to the rows, shard by shard: each shard's sentences, in the
epoch's order, are cut at sentence ends into one piece for each row, such that all rows come out
equally long. A row's text is its pieces one after the other, and window k is the time steps from
k * T to (k + 1) * T of all rows.

The forward direction reads `<S> w1 .. wn` of each sentence and predicts `w1 .. wn </S>`; the
backward direction reads `</S> wn .. w1` of the same sentence and predicts `wn .. w1 <S>`. So both
have n + 1 time steps for a sentence of n tokens, and stay side by side.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from elmo_plugin.data.corpus import BEGIN, END, EncodedCorpus, Shard

NOTHING = -1
"""In place of a target's rank where a row has ended."""


class Window(NamedTuple):
    """The ranks of the words of B rows and T time steps. *Shape of each:* `(B, T)` int64."""

    forward_inputs: np.ndarray
    forward_targets: np.ndarray
    backward_inputs: np.ndarray
    backward_targets: np.ndarray


@dataclass(frozen=True)
class _ShardLayout:
    """
    A shard's sentences, in the epoch's order, and each row's piece of them. A sentence takes one
    time step more than it has tokens.

    # Parameters

    shard : `int`
        Which shard.
    starts, lengths : `np.ndarray`
        Of each sentence, its first token in the shard and its number of tokens. *Shape:* `(S,)`.
    steps : `np.ndarray`
        The time step, counted from the shard's first, at which each sentence starts, and the
        number of all. *Shape:* `(S + 1,)`.
    first_step : `np.ndarray`
        The time step of the shard at which each row's piece starts. *Shape:* `(R,)`.
    begin, end : `np.ndarray`
        The time steps of the rows between which their pieces lie. *Shape:* `(R,)`.
    """

    shard: int
    starts: np.ndarray
    lengths: np.ndarray
    steps: np.ndarray
    first_step: np.ndarray
    begin: np.ndarray
    end: np.ndarray


class Epoch:
    """
    The windows of one epoch. The same arguments give the same windows, whatever was read before.

    # Parameters

    corpus : `EncodedCorpus`
        The text.
    num_rows : `int`
        R, the rows of all processes together.
    window : `int`
        T, the time steps of a window.
    shuffle : `str`, optional (default=`None`)
        `"sentences"` or `"documents"`: the order of shards, and of what is named within a shard,
        is drawn anew for each epoch. Otherwise the order of the text is kept.
    seed, epoch : `int`, optional (default=`0`)
        What the order is drawn from.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        num_rows: int,
        window: int,
        shuffle: str | None = None,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        self._corpus = corpus
        self._num_rows = num_rows
        self._window = window
        self._shuffle = shuffle
        self._seed = seed
        self._epoch = epoch

    @cached_property
    def num_windows(self) -> int:
        """As many as the longest row has."""
        *_, last = self._layouts()
        return self._count(last)

    def windows(self, rows: slice = slice(None), first: int = 0) -> Iterator[Window]:
        """
        # Parameters

        rows : `slice`, optional
            The rows to read, by default all.
        first : `int`, optional (default=`0`)
            The window to begin with. Those before it cost next to nothing.
        """
        reading: list[_Reader] = []
        index = first
        for count, deal in enumerate(self._layouts(), start=1):
            reading.append(_Reader(self._corpus, deal, rows))
            is_last = count == len(self._corpus.shards)
            complete = self._count(deal) if is_last else int(deal.end.min()) // self._window
            while True:
                begin = index * self._window
                reading = [reader for reader in reading if reader.last_step > begin]
                if index >= complete:
                    break
                yield self._read(reading, begin)
                index += 1

    def _count(self, last: _ShardLayout) -> int:
        return math.ceil(int(last.end.max()) / self._window)

    def _read(self, reading: list["_Reader"], begin: int) -> Window:
        num_rows = len(range(self._num_rows)[reading[0].rows])
        shape = (num_rows, self._window)
        window = Window(
            np.full(shape, BEGIN, dtype=np.int64),
            np.full(shape, NOTHING, dtype=np.int64),
            np.full(shape, BEGIN, dtype=np.int64),
            np.full(shape, NOTHING, dtype=np.int64),
        )
        for reader in reading:
            reader.read(begin, window)
        return window

    def _layouts(self) -> Iterator[_ShardLayout]:
        shards = self._corpus.shards
        order = np.arange(len(shards))
        if self._shuffle:
            order = self._random(0).permutation(len(shards))
        end = np.zeros(self._num_rows, dtype=np.int64)
        for index in order.tolist():
            sentences = _order(shards[index], self._shuffle, self._random(index + 1))
            starts = shards[index].sentences[sentences]
            lengths = shards[index].sentences[sentences + 1] - starts
            steps = np.concatenate([[0], np.cumsum(lengths + 1)])
            cuts = steps[_cut_into_rows(steps, end)]
            begin, end = end, end + np.diff(cuts)
            yield _ShardLayout(index, starts, lengths, steps, cuts[:-1], begin, end)

    def _random(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, self._epoch, stream))


class _Reader:
    """Reads windows from a deal; takes the shard into memory when the first is read."""

    def __init__(self, corpus: EncodedCorpus, deal: _ShardLayout, rows: slice) -> None:
        self.rows = rows
        self.last_step = int(deal.end.max())
        self._corpus = corpus
        self._deal = deal
        # What turns a time step of a row into one of the shard. (B, 1)
        self._begin = deal.begin[rows, None]
        self._end = deal.end[rows, None]
        self._shift = deal.first_step[rows, None] - self._begin

    @cached_property
    def _tokens(self) -> np.ndarray:
        return self._corpus.load_tokens(self._deal.shard)

    def read(self, begin: int, window: Window) -> None:
        """Fills in what this shard has of the window that begins at the time step `begin`."""
        step = begin + np.arange(window.forward_inputs.shape[1])[None, :]  # (1, T)
        here = (self._begin <= step) & (step < self._end)  # (B, T)
        step_of_shard = (step + self._shift)[here]  # (N,), N <= B * T
        sentence = np.searchsorted(self._deal.steps, step_of_shard, side="right") - 1
        position = step_of_shard - self._deal.steps[sentence]  # 0 at the boundary that opens
        length = self._deal.lengths[sentence]
        start = self._deal.starts[sentence]
        opens, closes = position == 0, position == length
        # Where a boundary stands there is no token to take: any index does.
        previous = np.where(opens, start, start + position - 1)
        following = np.where(closes, start, start + position)
        mirror = 2 * start + length - 1
        tokens = self._tokens
        window.forward_inputs[here] = np.where(opens, BEGIN, tokens[previous])
        window.forward_targets[here] = np.where(closes, END, tokens[following])
        window.backward_inputs[here] = np.where(opens, END, tokens[mirror - previous])
        window.backward_targets[here] = np.where(closes, BEGIN, tokens[mirror - following])


def _order(shard: Shard, shuffle: str | None, random: np.random.Generator) -> np.ndarray:
    """The order in which an epoch reads a shard's sentences. *Shape:* `(S,)` int64."""
    if shuffle == "sentences":
        return random.permutation(shard.num_sentences)
    if shuffle == "documents":
        documents = random.permutation(shard.num_documents)
        starts = shard.documents[documents]
        lengths = shard.documents[documents + 1] - starts
        before = np.cumsum(lengths) - lengths
        return np.repeat(starts - before, lengths) + np.arange(shard.num_sentences)
    return np.arange(shard.num_sentences)


def _cut_into_rows(steps: np.ndarray, row_lengths: np.ndarray) -> np.ndarray:
    """
    Cuts a shard into one piece for each row, at the sentence boundaries that make the rows' lengths
    most equal.

    # Parameters

    steps : `np.ndarray`
        Time steps at which sentences start, and the end. *Shape:* `(S + 1,)`.
    row_lengths : `np.ndarray`
        How long the rows are already. *Shape:* `(R,)`.

    # Returns

    `np.ndarray`
        The sentence with which each row's piece starts, and the end. *Shape:* `(R + 1,)`.
    """
    wanted = np.maximum((row_lengths.sum() + steps[-1]) / len(row_lengths) - row_lengths, 0)
    bounds = np.cumsum(wanted) * (steps[-1] / wanted.sum())
    after = np.clip(np.searchsorted(steps, bounds), 1, len(steps) - 1)
    nearest = np.where(bounds - steps[after - 1] < steps[after] - bounds, after - 1, after)
    nearest[-1] = len(steps) - 1
    return np.concatenate([[0], np.maximum.accumulate(nearest)])
