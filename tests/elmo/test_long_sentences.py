"""Sentences of 5,000 to 40,000 tokens, and words of up to 4,096 characters. The oracle is the biLM
in NumPy and float64, which reads one step at a time."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from elmo_plugin import Elmo
from tests import oracle
from tests.compare import assert_close
from tests.conftest import Fuzz
from tests.random_bilm import arrays_of, oracle_state, random_bilm, randomize

pytestmark = pytest.mark.long


def check(random: Random, folder: Path, n_characters: int, n_tokens: int) -> None:
    """Compare all layers of three sentences of a random biLM, of which the second has `n_tokens`,
    with and without a snapshot."""
    lstm = {
        "n_layers": random.randint(1, 2),
        "cell_clip": random.choice([None, 0.6]),
        "proj_clip": random.choice([None, 0.5]),
        "use_skip_connections": random.random() < 0.5,
    }
    bilm, options = random_bilm(lstm, {"max_characters_per_token": n_characters})
    randomize(bilm, std=0.4)
    bilm.warm_up()
    arrays, most = arrays_of(bilm, folder), n_characters + 3
    words = [f"w{k}" for k in range(17)] + [
        random.choice("aé🙂") * random.choice([most // 2, most // 4, most]) for _ in range(5)
    ]
    initial_state = random.choice(["zero", "warm", "carry"])
    elmo = Elmo(bilm, initial_state=initial_state, requires_grad=random.random() < 0.5)
    state = oracle_state(bilm.initial_state(initial_state, 1), 0)
    for n in (random.randint(1, 9), n_tokens, random.randint(1, 9)):
        sentence = random.choices(words, k=n)
        layers, after = oracle.sentence(arrays, options, ["<S>", *sentence, "</S>"], state)
        state = after if initial_state == "carry" else state
        [found] = elmo.embed([sentence], "all")
        assert_close(found, np.stack(layers)[:, 1:-1], atol=2e-5, what=f"{n}, {initial_state}")


def test_long_sentences(tmp_path: Path, fuzz: Fuzz) -> None:
    """Errors of single precision do not add up, since a state forgets those before: they are below
    2e-5, as in short sentences. Most are shorter than 10,000 tokens."""
    for random in fuzz.cases(1):
        check(random, tmp_path, 10, n_tokens=int(5000 * 8 ** (random.random() ** 3)))


def test_long_words(tmp_path: Path, fuzz: Fuzz) -> None:
    """The longest `max_characters_per_token`, and those at which the kernel and the types of
    positions change."""
    for random in fuzz.cases(1):
        check(random, tmp_path, random.choice([4096, 4096, 4095, 255, 256, 257, 258]), n_tokens=12)
