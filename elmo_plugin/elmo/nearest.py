"""
The occurrences of words in a text that are nearest to given ones, by the cosine of their vectors
(Peters et al. 2018, table 4). The text is read once, a part at a time.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.text.lines import find_files, read_blocks

PART_TOKENS = 2**14
"""Tokens whose vectors are in memory at a time, which are 64 MiB at the paper's 2P = 1024."""


class Sentence(NamedTuple):
    """
    words : `tuple[str, ...]`
    source : `str`
        The place of the sentence in the text, such as `news.txt, line 7`.
    """

    words: tuple[str, ...]
    source: str = ""


class Occurrence(NamedTuple):
    """
    A word in its sentence.

    sentence : `Sentence`
    position : `int`
        The number of the word in the sentence, from 0.
    """

    sentence: Sentence
    position: int

    @property
    def word(self) -> str:
        return self.sentence.words[self.position]

    @property
    def key(self) -> tuple[tuple[str, ...], int]:
        """Equal words at the same position of equal sentences have equal vectors."""
        return self.sentence.words, self.position


class Neighbour(NamedTuple):
    """An occurrence, and its cosine with the query."""

    cosine: float
    occurrence: Occurrence


def text_sentences(path: str | os.PathLike) -> Iterator[Sentence]:
    """The sentences of a text that are not empty; see `find_files` for `path`."""
    files = find_files(path)
    for file in files:
        prefix = f"{file.name}, " if len(files) > 1 else ""
        lines = chain.from_iterable(read_blocks(file))
        for number, line in enumerate(lines, start=1):
            if words := tuple(line.split()):
                yield Sentence(words, f"{prefix}line {number}")


def occurrences(sentences: Iterable[Sentence], word: str) -> Iterator[Occurrence]:
    """The occurrences of a word, in upper or lower case."""
    for sentence in sentences:
        for position, other in enumerate(sentence.words):
            if other.lower() == word.lower():
                yield Occurrence(sentence, position)


def nearest_occurrences(
    elmo: Elmo,
    queries: Sequence[Occurrence],
    sentences: Iterable[Sentence],
    *,
    k: int,
    layer: str | int = "top",
    same_word: bool = False,
) -> list[list[Neighbour]]:
    """
    The nearest occurrences in a text. Repeated sentences count once, and the query itself does not.

    # Parameters

    elmo : `Elmo`
        The biLM, whose initial state is `zero` or `warm`.
    queries : `Sequence[Occurrence]`
        The words in their sentences, which need not be in the text.
    sentences : `Iterable[Sentence]`
        The text.
    k : `int`
        The number of occurrences for each query.
    layer : `str | int`
        `"top"`, `"average"` or the number of a layer; see `Elmo.embed`.
    same_word : `bool`
        Look only at occurrences of the query's word, in upper or lower case.

    # Returns

    `list[list[Neighbour]]`
        For each query at most `k` occurrences, the nearest first.
    """
    vectors = elmo.embed([query.sentence.words for query in queries], layer, as_tensors=True)
    goals = _unit(torch.stack([x[query.position] for x, query in zip(vectors, queries)]))
    words = {query.word.lower() for query in queries} if same_word else None
    best: list[list[Neighbour]] = [[] for _ in queries]
    for part in _parts(sentences, words):
        vectors = elmo.embed([sentence.words for sentence in part], layer, as_tensors=True)
        cosines = goals @ _unit(torch.cat(vectors)).T  # (number of queries, tokens)
        found = [Occurrence(s, position) for s in part for position in range(len(s.words))]
        for query, cosine, neighbours in zip(queries, cosines, best):
            hidden = [other.key == query.key for other in found]
            if same_word:
                hidden = [a or not _same(query, other) for a, other in zip(hidden, found)]
            cosine[torch.tensor(hidden)] = -torch.inf
            values, places = cosine.topk(min(k, len(found)))
            new = zip(values.tolist(), places.tolist())
            neighbours += [Neighbour(x, found[place]) for x, place in new if x > -torch.inf]
            neighbours[:] = _top(neighbours, k)
    return best


def _same(one: Occurrence, other: Occurrence) -> bool:
    return one.word.lower() == other.word.lower()


def _top(neighbours: list[Neighbour], k: int) -> list[Neighbour]:
    """
    The first `k` distinct occurrences. Of a repeated one the first in the text is kept: products of
    other shapes round otherwise, so that the cosine of a repetition may be larger by a little.
    """
    distinct: dict[object, Neighbour] = {}
    for neighbour in neighbours:
        distinct.setdefault(neighbour.occurrence.key, neighbour)
    return sorted(distinct.values(), key=lambda neighbour: -neighbour.cosine)[:k]


def _parts(
    sentences: Iterable[Sentence], words: Collection[str] | None
) -> Iterator[list[Sentence]]:
    """
    Parts of the text of about `PART_TOKENS`, each with distinct sentences; only those with one of
    `words`, if there are some.
    """
    part: dict[tuple[str, ...], Sentence] = {}
    n_tokens = 0
    for sentence in tqdm(sentences, unit=" sentences"):
        if words is None or any(word.lower() in words for word in sentence.words):
            if sentence.words not in part:
                part[sentence.words] = sentence
                n_tokens += len(sentence.words)
            if n_tokens >= PART_TOKENS:
                yield list(part.values())
                part, n_tokens = {}, 0
    if part:
        yield list(part.values())


def _unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=-1)
