"""
Finds the nearest occurrences of words in a text by cosine similarity (Peters et al. 2018, table 4).
The text is read once, in parts.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch.nn.functional import normalize
from tqdm import tqdm

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.text.lines import find_files, read_blocks

PART_TOKENS = 2**14
"""Number of tokens whose vectors are in memory at a time: 64 MiB at the paper's 2P = 1024."""


class Sentence(NamedTuple):
    """A sentence and its place in the text, such as `news.txt, line 7`."""

    words: tuple[str, ...]
    source: str = ""


class Occurrence(NamedTuple):
    """
    A word in its sentence, at a position counted from 0. Occurrences with equal sentence and
    position have the same `key`, because their vectors are equal.
    """

    sentence: Sentence
    position: int

    @property
    def word(self) -> str:
        return self.sentence.words[self.position]

    @property
    def key(self) -> tuple[tuple[str, ...], int]:
        return self.sentence.words, self.position


class Neighbor(NamedTuple):
    """An occurrence and its cosine with the query."""

    cosine: float
    occurrence: Occurrence


def text_sentences(path: str | os.PathLike) -> Iterator[Sentence]:
    """The non-empty sentences of a text; see `find_files` for `path`."""
    files = find_files(path)
    folder = os.path.commonpath([file.parent for file in files])
    for file in files:
        prefix = f"{os.path.relpath(file, folder)}, " if len(files) > 1 else ""
        lines = chain.from_iterable(read_blocks(file))
        for number, line in enumerate(lines, start=1):
            if words := tuple(line.split()):
                yield Sentence(words, f"{prefix}line {number}")


def occurrences(sentences: Iterable[Sentence], word: str) -> Iterator[Occurrence]:
    """The occurrences of a word, ignoring case."""
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
) -> list[list[Neighbor]]:
    """
    For each query at most `k` occurrences in a text, the nearest first. Repeated sentences count
    once, and the query itself does not. The words of `queries` need not be in the text. `elmo` has
    the initial state `zero` or `warm`. `layer` is `"top"`, `"average"` or the number of a layer.
    With `same_word`, only occurrences of the query's word are considered, ignoring case.
    """
    sentences = tqdm(sentences, unit=" sentences")
    if same_word:  # sentences without such a word need not be read
        words = {query.word.lower() for query in queries}
        sentences = (s for s in sentences if any(word.lower() in words for word in s.words))
    vectors = elmo.embed([query.sentence.words for query in queries], layer, as_tensors=True)
    goals = torch.stack([x[query.position] for x, query in zip(vectors, queries)])
    best: list[dict[object, Neighbor]] = [{} for _ in queries]  # by key
    for part in _parts(sentences):
        vectors = elmo.embed([sentence.words for sentence in part], layer, as_tensors=True)
        # (number of queries, tokens)
        cosines = normalize(goals, dim=-1) @ normalize(torch.cat(vectors), dim=-1).T
        found = [Occurrence(s, position) for s in part for position in range(len(s.words))]
        for row, (query, cosine) in enumerate(zip(queries, cosines)):
            is_hidden = [
                other.key == query.key or (same_word and other.word.lower() != query.word.lower())
                for other in found
            ]
            cosine[torch.tensor(is_hidden)] = -torch.inf
            values, places = cosine.topk(min(k, len(found)))
            for value, place in zip(values.tolist(), places.tolist()):
                if value > -torch.inf:
                    # The first of repeated occurrences is kept. A repetition's cosine may be
                    # slightly larger, because products of other shapes round differently.
                    best[row].setdefault(found[place].key, Neighbor(value, found[place]))
            nearest = sorted(best[row].items(), key=lambda item: -item[1].cosine)[:k]
            best[row] = dict(nearest)
    return [list(neighbors.values()) for neighbors in best]


def _parts(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Parts of the text of about `PART_TOKENS`, each with distinct sentences."""
    part: dict[tuple[str, ...], Sentence] = {}
    n_tokens = 0
    for sentence in sentences:
        if sentence.words not in part:
            part[sentence.words] = sentence
            n_tokens += len(sentence.words)
        if n_tokens >= PART_TOKENS:
            yield list(part.values())
            part, n_tokens = {}, 0
    if part:
        yield list(part.values())
