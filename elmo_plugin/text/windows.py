"""
Cuts an encoded corpus into rows of running text, and the rows into windows of a few time steps.

Each shard's sentences, in the epoch's order, are cut at sentence ends into one piece per row, so
that all rows become about equally long. A row is its pieces of all shards, concatenated. Window k
contains the time steps k * T to (k + 1) * T of all rows.

The forward direction reads `<S> w1 .. wn` of each sentence and predicts `w1 .. wn </S>`. The
backward direction reads `</S> wn .. w1` of the same sentence and predicts `wn .. w1 <S>`. Both take
n + 1 time steps for a sentence of n tokens, so they read the same sentences in a window.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from elmo_plugin.text.characters import BEGIN, END
from elmo_plugin.text.corpus import EncodedCorpus

NOTHING = -1
"""Rank of a target after the end of a row."""


class Window(NamedTuple):
    """Word ranks of B rows and T time steps. Shape of each: `(B, T)`, int64."""

    forward_inputs: np.ndarray
    forward_targets: np.ndarray
    backward_inputs: np.ndarray
    backward_targets: np.ndarray


@dataclass(frozen=True)
class Epoch:
    """
    The windows of one epoch, which depend only on the arguments: `num_rows`, R, the rows of all
    processes; `window`, T, the time steps of a window; `shuffle`, whether to shuffle the sentences
    within each shard, and the shards, or to keep the order of the text; and `seed` and `epoch`, the
    seeds of the order.
    """

    corpus: EncodedCorpus
    num_rows: int
    window: int
    shuffle: bool = False
    seed: int = 0
    epoch: int = 0

    @cached_property
    def num_windows(self) -> int:
        """Number of windows of the longest row."""
        for pieces in self._pieces():  # one shard at a time, because all would fill the memory
            end = pieces.end
        return math.ceil(int(end.max()) / self.window)

    def windows(self, rows: slice = slice(None), first: int = 0) -> Iterator[Window]:
        """
        Read the windows of all or some rows, starting at the window `first`. Skipping windows takes
        almost no time.
        """
        reading: list[_Pieces] = []
        index = first
        for count, pieces in enumerate(self._pieces(), start=1):
            reading.append(pieces)
            complete = int(pieces.end.min()) // self.window
            if count == len(self.corpus.shards):
                complete = self.num_windows
            while True:
                begin = index * self.window
                reading = [pieces for pieces in reading if pieces.end.max() > begin]
                if index >= complete:
                    break
                yield self._read(reading, rows, begin)
                index += 1

    def _read(self, reading: list["_Pieces"], rows: slice, begin: int) -> Window:
        shape = (len(range(self.num_rows)[rows]), self.window)
        window = Window(*(np.full(shape, rank) for rank in (BEGIN, NOTHING, BEGIN, NOTHING)))
        for pieces in reading:
            pieces.read(begin, rows, window)
        return window

    def _pieces(self) -> Iterator["_Pieces"]:
        shards = self.corpus.shards
        end = np.zeros(self.num_rows, dtype=np.int64)
        for index in self._order(0, len(shards)).tolist():
            sentences = self._order(index + 1, shards[index].num_sentences)
            pieces = _Pieces(self.corpus, index, sentences, end)
            end = pieces.end
            yield pieces

    def _order(self, stream: int, size: int) -> np.ndarray:
        """The order of the shards (stream 0) or of a shard's sentences, shape `(size,)`, int64."""
        if not self.shuffle:
            return np.arange(size)
        return np.random.default_rng((self.seed, self.epoch, stream)).permutation(size)


class _Pieces:
    """
    The pieces of all rows in one shard, whose tokens are loaded for the first window that needs
    them. `order`: its sentences in the epoch's order, shape `(S,)`. `begin`: time steps of the rows
    at which the pieces begin, shape `(R,)`.
    """

    def __init__(
        self, corpus: EncodedCorpus, shard: int, order: np.ndarray, begin: np.ndarray
    ) -> None:
        self._corpus = corpus
        self._shard = shard
        offsets = corpus.shards[shard].sentences
        self._starts = offsets[order]  # each sentence's first token, (S,)
        self._lengths = offsets[order + 1] - self._starts  # in tokens, (S,)
        # Time steps of the shard at which the sentences start, and at which the last one ends,
        # (S + 1,). A sentence of n tokens takes n + 1 time steps.
        self._steps = np.concatenate([[0], np.cumsum(self._lengths + 1)])
        cuts = self._steps[_cut_into_rows(self._steps, begin)]  # (R + 1,)
        self._begin = begin
        self.end = begin + np.diff(cuts)
        """Time steps of the rows at which the pieces end, shape `(R,)`."""
        # Add this to a row's time step to get the shard's time step. (R,)
        self._shift = cuts[:-1] - begin

    @cached_property
    def _tokens(self) -> np.ndarray:
        return self._corpus.load_tokens(self._shard)

    def read(self, first_step: int, rows: slice, window: Window) -> None:
        """Fill in this shard's part of the window of `rows` that starts at `first_step`."""
        begin, end, shift = (x[rows, None] for x in (self._begin, self.end, self._shift))  # (B, 1)
        step = first_step + np.arange(window.forward_inputs.shape[1])[None, :]  # (1, T)
        here = (begin <= step) & (step < end)  # (B, T)
        step_of_shard = (step + shift)[here]  # (N,), N <= B * T
        sentence = np.searchsorted(self._steps, step_of_shard, side="right") - 1
        position = step_of_shard - self._steps[sentence]  # 0 at the first boundary
        length = self._lengths[sentence]
        start = self._starts[sentence]
        opens, closes = position == 0, position == length
        # At a boundary no token is used, so any valid index works.
        previous = np.where(opens, start, start + position - 1)
        following = np.where(closes, start, start + position)
        mirror = 2 * start + length - 1
        tokens = self._tokens
        window.forward_inputs[here] = np.where(opens, BEGIN, tokens[previous])
        window.forward_targets[here] = np.where(closes, END, tokens[following])
        window.backward_inputs[here] = np.where(opens, END, tokens[mirror - previous])
        window.backward_targets[here] = np.where(closes, BEGIN, tokens[mirror - following])


def _cut_into_rows(steps: np.ndarray, row_lengths: np.ndarray) -> np.ndarray:
    """
    Cut a shard into one piece for each row, at the sentence boundaries that make the rows' lengths
    most equal.

    `steps`: time steps at which the sentences start, and at which the last one ends, shape
    `(S + 1,)`. `row_lengths`: lengths of the rows before this shard, shape `(R,)`. Returns the
    index of the first sentence of each row's piece, and the number of sentences, shape `(R + 1,)`.
    """
    wanted = np.maximum((row_lengths.sum() + steps[-1]) / len(row_lengths) - row_lengths, 0)
    bounds = np.cumsum(wanted) * (steps[-1] / wanted.sum())
    after = np.clip(np.searchsorted(steps, bounds), 1, len(steps) - 1)
    nearest = np.where(bounds - steps[after - 1] < steps[after] - bounds, after - 1, after)
    nearest[-1] = len(steps) - 1
    return np.concatenate([[0], np.maximum.accumulate(nearest)])
