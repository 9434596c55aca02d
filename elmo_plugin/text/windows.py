"""
Cuts an encoded corpus into rows of running text, and these into windows of a few time steps.

Each shard's sentences, in the epoch's order, are cut at sentence ends into one piece for each row,
so that all rows become about equally long. A row consists of its pieces of all shards, one after
the other. Window k is the time steps k * T to (k + 1) * T of all rows.

The forward direction reads `<S> w1 .. wn` of each sentence and predicts `w1 .. wn </S>`. The
backward direction reads `</S> wn .. w1` of the same sentence and predicts `wn .. w1 <S>`. Both take
n + 1 time steps for a sentence of n tokens, so that they read the same sentences in a window.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from elmo_plugin.text.corpus import BEGIN, END, EncodedCorpus, Shard

NOTHING = -1
"""Stands for a target's rank after the end of a row."""


class Window(NamedTuple):
    """Word ranks of B rows and T time steps. *Shape of each:* `(B, T)` int64."""

    forward_inputs: np.ndarray
    forward_targets: np.ndarray
    backward_inputs: np.ndarray
    backward_targets: np.ndarray


@dataclass(frozen=True)
class _ShardLayout:
    """
    The sentences of a shard in the epoch's order, and the piece of each row. A sentence takes one
    time step more than it has tokens.

    # Parameters

    shard : `int`
        Index of the shard.
    starts, lengths : `np.ndarray`
        Each sentence's first token in the shard and its number of tokens. *Shape:* `(S,)`.
    steps : `np.ndarray`
        Time step of the shard at which each sentence starts, and at which the last one ends.
        *Shape:* `(S + 1,)`.
    first_step : `np.ndarray`
        Time step of the shard at which each row's piece starts. *Shape:* `(R,)`.
    begin, end : `np.ndarray`
        Time steps of the row at which its piece starts and ends. *Shape:* `(R,)`.
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
    The windows of one epoch, which depend on nothing but the arguments.

    # Parameters

    corpus : `EncodedCorpus`
        Corpus to read.
    num_rows : `int`
        R, the number of rows of all processes together.
    window : `int`
        T, the number of time steps of a window.
    shuffle : `str`, optional (default=`None`)
        Unit to shuffle within each shard, `"sentences"` or `"documents"`; the shards are shuffled
        too. `None` keeps the order of the text.
    seed, epoch : `int`, optional (default=`0`)
        Seeds of the order.
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
        """Number of windows of the longest row."""
        *_, last = self._layouts()
        return self._count(last)

    def windows(self, rows: slice = slice(None), first: int = 0) -> Iterator[Window]:
        """
        Reads the windows from the window `first` on, of all rows or some. Skipping those before it
        takes almost no time.
        """
        reading: list[_Reader] = []
        index = first
        for count, layout in enumerate(self._layouts(), start=1):
            reading.append(_Reader(self._corpus, layout, rows))
            is_last = count == len(self._corpus.shards)
            complete = self._count(layout) if is_last else int(layout.end.min()) // self._window
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
    """Reads the part of windows that is in one shard, which it loads for the first of them."""

    def __init__(self, corpus: EncodedCorpus, layout: _ShardLayout, rows: slice) -> None:
        self.rows = rows
        self.last_step = int(layout.end.max())
        self._corpus = corpus
        self._layout = layout
        self._begin = layout.begin[rows, None]  # (B, 1)
        self._end = layout.end[rows, None]  # (B, 1)
        # Added to a time step of a row, this gives the time step of the shard. (B, 1)
        self._shift = layout.first_step[rows, None] - self._begin

    @cached_property
    def _tokens(self) -> np.ndarray:
        return self._corpus.load_tokens(self._layout.shard)

    def read(self, begin: int, window: Window) -> None:
        """Fills in this shard's part of the window that starts at time step `begin`."""
        step = begin + np.arange(window.forward_inputs.shape[1])[None, :]  # (1, T)
        here = (self._begin <= step) & (step < self._end)  # (B, T)
        step_of_shard = (step + self._shift)[here]  # (N,), N <= B * T
        sentence = np.searchsorted(self._layout.steps, step_of_shard, side="right") - 1
        position = step_of_shard - self._layout.steps[sentence]  # 0 at the first boundary
        length = self._layout.lengths[sentence]
        start = self._layout.starts[sentence]
        opens, closes = position == 0, position == length
        # At a boundary no token is used, so that any index will do.
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

    `steps`: time steps at which the sentences start, and at which the last one ends, *shape*
    `(S + 1,)`. `row_lengths`: lengths of the rows before this shard, *shape* `(R,)`. Returns the
    index of the first sentence of each row's piece, and the number of sentences, *shape*
    `(R + 1,)`.
    """
    wanted = np.maximum((row_lengths.sum() + steps[-1]) / len(row_lengths) - row_lengths, 0)
    bounds = np.cumsum(wanted) * (steps[-1] / wanted.sum())
    after = np.clip(np.searchsorted(steps, bounds), 1, len(steps) - 1)
    nearest = np.where(bounds - steps[after - 1] < steps[after] - bounds, after - 1, after)
    nearest[-1] = len(steps) - 1
    return np.concatenate([[0], np.maximum.accumulate(nearest)])
