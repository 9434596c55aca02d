"""Sentences of 5,000 to 40,000 tokens, and words of up to 4,096 characters, in every way of
reading. The oracle is the biLM in NumPy and float64, which reads one step at a time."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.formats.bilm_tf.texts import write_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from tests import oracle
from tests.compare import assert_close
from tests.conftest import Fuzz
from tests.random_bilm import arrays_of, oracle_state, random_bilm, randomize

pytestmark = pytest.mark.long

Layers = list[np.ndarray]
"""The L + 1 layers of each sentence, shape `(L + 1, n, 2P)`."""


class Case:
    """A random biLM with its files, and sentences, of which the second is the longest. `words`: the
    number of characters of its words; `n_tokens`: the length of the longest sentence."""

    def __init__(self, random: Random, folder: Path, n_characters: int, n_tokens: int) -> None:
        self.folder, self.n_characters = folder, n_characters
        self.initial_state = random.choice(["zero", "warm", "carry"])
        lstm = {
            "n_layers": random.randint(1, 2),
            "cell_clip": random.choice([None, 0.6]),
            "proj_clip": random.choice([None, 0.5]),
            "use_skip_connections": random.random() < 0.5,
        }
        self.bilm, self.options = random_bilm(lstm, {"max_characters_per_token": n_characters})
        randomize(self.bilm, std=0.4)
        self.bilm.warm_up()
        folder.mkdir()
        write_options(self.bilm.options, folder / "options.json")
        write_weights(self.bilm, folder / "weights.hdf5")
        self.files = str(folder / "options.json"), str(folder / "weights.hdf5")
        most = n_characters + 3
        self.words = [f"w{k}" for k in range(17)] + [
            random.choice("aé🙂") * random.choice([most // 2, most // 4, most]) for _ in range(5)
        ]
        lengths = (random.randint(1, 9), n_tokens, random.randint(1, 9))
        self.sentences = [random.choices(self.words, k=n) for n in lengths]

    def elmo(self, **settings: Any) -> Elmo:
        return Elmo.from_files(*self.files, initial_state=self.initial_state, **settings)

    def expected(self) -> Layers:
        """The layers with the boundaries. With `carry` each sentence starts from the state after
        the one before, and otherwise from the same state."""
        arrays = arrays_of(self.bilm, self.folder)
        known = {
            w: oracle.word_vector(arrays, self.options, w) for w in (*self.words, "<S>", "</S>")
        }
        state = oracle_state(self.bilm.initial_state(self.initial_state, 1), 0)
        found = []
        for sentence in self.sentences:
            x = np.array([known[word] for word in ("<S>", *sentence, "</S>")])
            forward, after = oracle.stream(arrays, self.options, 0, x, state)
            backward, after = oracle.stream(arrays, self.options, 1, x[::-1], after)
            pairs = [(x, x), *((f, b[::-1]) for f, b in zip(forward, backward))]
            found.append(np.stack([np.concatenate(pair, axis=1) for pair in pairs]))
            if self.initial_state == "carry":
                state = after
        return found


def one_by_one(case: Case, read_one: Callable[[list[list[str]]], Any]) -> list[Any]:
    """What `read_one` gives for the first row of batches of one sentence, which is all of them if
    they carry no state."""
    return [read_one([sentence]) for sentence in case.sentences]


def embed(case: Case) -> Layers:
    elmo = case.elmo()
    if case.initial_state == "carry":
        return [x for [x] in one_by_one(case, lambda s: elmo.embed(s, "all"))]
    return elmo.embed(case.sentences, "all")


def modules(case: Case) -> Layers:
    elmo = case.elmo(requires_grad=True)
    return [x for [x] in one_by_one(case, lambda s: elmo.embed(s, "all"))]


def layers(case: Case) -> Layers:
    """With the boundaries."""
    elmo = case.elmo()
    found = one_by_one(case, lambda s: torch.stack(elmo.layers(elmo.characters(s))[0])[:, 0])
    return [x.detach().numpy() for x in found]


WAYS = {f.__name__: f for f in (embed, modules, layers)}


def random_length(random: Random) -> int:
    """From 5,000 to 40,000, mostly less than 10,000."""
    return int(5000 * 8 ** (random.random() ** 3))


def check(case: Case, way: str) -> None:
    for found, expected in zip(WAYS[way](case), case.expected(), strict=True):
        right = expected if way == "layers" else expected[:, 1:-1]
        assert_close(found, right, atol=2e-5, what=f"{way}, {case.initial_state}")


def test_long_sentences(tmp_path: Path, fuzz: Fuzz) -> None:
    """Expected: the oracle's layers, one way of reading after the other. Errors of single precision
    do not add up, since a state forgets those before: they are below 2e-5, as in short
    sentences."""
    for number, random in enumerate(fuzz.cases(1)):
        n_tokens = random_length(random)
        check(Case(random, tmp_path / str(number), 10, n_tokens), [*WAYS][number % len(WAYS)])


def test_long_words(tmp_path: Path, fuzz: Fuzz) -> None:
    """Expected: the oracle's layers, for the longest `max_characters_per_token`, and for those at
    which the kernel and the types of positions change."""
    for number, random in enumerate(fuzz.cases(1)):
        n_characters = random.choice([4096, 4096, 4095, 255, 256, 257, 258])
        check(Case(random, tmp_path / str(number), n_characters, 12), [*WAYS][number % len(WAYS)])
