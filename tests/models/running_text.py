"""Windows of running text for the language model, dealt in plain Python, and what the oracle says
of the same text."""

from typing import Any

import numpy as np
import torch

from elmo_plugin.data.characters import words_to_characters
from tests import oracle
from tests.conftest import WORDS
from tests.oracle import Arrays, Options, State

IGNORE = -100
UNKNOWN = 2
UNHEARD_OF = ["naïve", "🙂"]
"""Words that the vocabulary lacks."""

Sentence = list[str]
Row = list[Sentence]

TEXT: list[Row] = [
    ["he threw the stick .".split(), "the dog 🙂".split(), ["to"]],
    [["naïve", "."], "the stick to the dog .".split(), ["he"], [".", "."]],
    ["stick to he".split()],
]
"""Rows of 13, 16 and 4 time steps (a sentence of n words takes n + 1); `</S>` ends a window of 4 in
the first row's twelve... and the last row ends with a window of 4."""


def number(word: str) -> int:
    """A word's number in the vocabulary."""
    return WORDS.index(word) if word in WORDS else UNKNOWN


def streams(row: Row) -> list[tuple[list[str], list[str]]]:
    """Inputs and targets of a row, forwards and backwards: each sentence reversed, the sentences in
    the same order."""
    forward = [["<S>", *sentence, "</S>"] for sentence in row]
    backward = [sentence[::-1] for sentence in forward]
    return [
        ([w for s in direction for w in s[:-1]], [w for s in direction for w in s[1:]])
        for direction in (forward, backward)
    ]


def windows(rows: list[Row], n_steps: int) -> list[dict[str, torch.Tensor]]:
    """The rows' windows, behind a row's end `<S>` and nothing to predict."""
    table = [*WORDS, *UNHEARD_OF]
    longest = max(len(streams(row)[0][0]) for row in rows)
    filled = {
        name: []
        for name in ("forward_inputs", "forward_targets", "backward_inputs", "backward_targets")
    }
    for row in rows:
        for direction, (inputs, targets) in zip(("forward", "backward"), streams(row)):
            rest = -(-longest // n_steps) * n_steps - len(inputs)
            filled[f"{direction}_inputs"].append([table.index(w) for w in inputs] + [0] * rest)
            filled[f"{direction}_targets"].append([number(w) for w in targets] + [IGNORE] * rest)
    pieces = zip(*(torch.tensor(rows).split(n_steps, dim=1) for rows in filled.values()))
    return [
        {
            "words": torch.from_numpy(words_to_characters(table, 10)),
            **dict(zip(filled, piece)),
            "starts": torch.full((len(rows),), k == 0),
            "word_ids": torch.tensor([number(word) for word in table]),
        }
        for k, piece in enumerate(pieces)
    ]


def log_probabilities(
    arrays: Arrays, options: Options, row: Row, state: State
) -> tuple[list[np.ndarray], State]:
    """The oracle's log probability of each target of a row, forwards and backwards, step by step;
    and the state after it."""
    found = []
    for d, (inputs, targets) in enumerate(streams(row)):
        tokens = inputs if "char_cnn" in options else [number(word) for word in inputs]
        x = np.array([oracle.word_vector(arrays, options, token) for token in tokens])
        layers, state = oracle.stream(arrays, options, d, x, state)
        found.append(
            np.array(
                [
                    oracle.log_softmax(arrays, h)[number(word)]
                    for h, word in zip(layers[-1], targets)
                ]
            )
        )
    return found, state
