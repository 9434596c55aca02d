"""A small language model, running text for it, cut into windows in plain Python, and the oracle's
results for the same text."""

import json
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.plugin.data.data_loader import LazyWindow
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.text.characters import words_to_characters
from tests import oracle
from tests.conftest import WORDS
from tests.oracle import Arrays, Options, State
from tests.random_bilm import CHAR_CNN, LSTM, random_state, randomize

OPTIONS = {"lstm": LSTM, "char_cnn": CHAR_CNN}
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
"""Rows of 12, 15 and 4 time steps (a sentence of n words takes n + 1)."""


def language_model(seed: int = 0, vocab: Vocabulary | None = None, **params: Any) -> BiLMModel:
    """Build a model from a config, in float64 and in training mode, with random weights and a
    random warm state."""
    others = {"dropout": 0.0, "n_negative_samples": None, "initial_state": "zero", **params}
    config = json.loads(json.dumps({"type": "bilm", **OPTIONS, **others}))
    torch.manual_seed(seed)
    vocab = BiLMVocabulary.from_words(WORDS) if vocab is None else vocab
    model = Model.from_params(Params(config), vocab=vocab)
    randomize(model)
    model.bilm.warm_state.set(random_state(model.bilm, 1, seed))
    return model.double()


def number(word: str) -> int:
    """Return a word's number in the vocabulary."""
    return WORDS.index(word) if word in WORDS else UNKNOWN


def streams(row: Row) -> list[tuple[list[str], list[str]]]:
    """Return the inputs and targets of a row, forwards and backwards. Backwards, each sentence is
    reversed, and the sentences have the same order."""
    forward = [["<S>", *sentence, "</S>"] for sentence in row]
    backward = [sentence[::-1] for sentence in forward]
    return [
        ([w for s in direction for w in s[:-1]], [w for s in direction for w in s[1:]])
        for direction in (forward, backward)
    ]


def windows(rows: list[Row], n_steps: int) -> list[dict[str, torch.Tensor]]:
    """Yield the rows' windows. After the end of a row they have `<S>` and nothing to predict."""
    table = [*WORDS, *UNHEARD_OF]
    longest = max(len(streams(row)[0][0]) for row in rows)
    filled: dict[str, list[list[int]]] = defaultdict(list)
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
        }
        for k, piece in enumerate(pieces)
    ]


def batch(window: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return a window as a batch of the data loader."""
    tensors = {key: tensor for key, tensor in window.items() if key != "starts"}
    return {"starts": window["starts"], "window": LazyWindow(lambda: tensors)}


def log_probabilities(
    arrays: Arrays, options: Options, row: Row, state: State
) -> tuple[list[np.ndarray], State]:
    """Return the oracle's log probability of each target of a row, forwards and backwards, step by
    step, and the state after it."""
    found = []
    for d, (inputs, targets) in enumerate(streams(row)):
        x = np.array([oracle.word_vector(arrays, options, word) for word in inputs])
        layers, state = oracle.stream(arrays, options, d, x, state)
        log_p = (oracle.log_softmax(arrays, h) for h in layers[-1])
        found.append(np.array([p[number(word)] for p, word in zip(log_p, targets)]))
    return found, state
