"""The config of proteins, on invented sequences whose law is known."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT, allennlp

SYMBOLS = list("ACDEFGHIKLMNPQRSTVWYUOBZX")
END = len(SYMBOLS)
STOP = 0.02
"""Probability that a sequence ends after a symbol."""


def sequences(number: int, law: np.ndarray, random: np.random.Generator) -> list[list[int]]:
    """Sequences of which each symbol depends on the one before, between two ends."""
    all_ = []
    for _ in range(number):
        places = [END]
        while len(places) == 1 or places[-1] != END:
            places.append(random.choice(END + 1, p=law[places[-1]]))
        all_.append(places)
    return all_


def test_a_bigram_law_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By NumPy, the perplexity of the law from which the sequences were drawn, which no model beats
    in the mean, in either direction, because both predict the same sequences; and that of the
    symbols' frequencies. The config comes near the law, here with smaller LSTMs."""
    random = np.random.default_rng(0)
    law = (1 - STOP) * random.dirichlet([0.2] * END, END + 1)
    law = np.column_stack([law, np.full(END + 1, STOP)])
    law[END] = [*law[END, :END] / (1 - STOP), 0]
    for part, number in (("train", 1500), ("heldout", 200)):
        drawn = sequences(number, law, random)
        lines = [" ".join(SYMBOLS[place] for place in places[1:-1]) + "\n" for places in drawn]
        (tmp_path / part).write_text("".join(lines))
    best = np.exp(-np.concatenate([np.log(law[s[:-1], s[1:]]) for s in drawn]).mean())
    frequencies = np.bincount(np.concatenate([places[1:] for places in drawn]))
    frequencies = frequencies[frequencies > 0] / frequencies.sum()
    unigrams = np.exp(-(frequencies * np.log(frequencies)).sum())

    monkeypatch.setenv("BILM_TEXT", str(tmp_path))
    config = tmp_path / "small.jsonnet"
    config.write_text(
        f"""(import '{ROOT}/training_configs/bilm_proteins.jsonnet') + {{
          data_loader+: {{ batch_size: 16, window: 50 }},
          model+: {{ lstm+: {{ dim: 64, projection_dim: 32 }} }},
          trainer+: {{
            num_epochs: 2,
            optimizer+: {{ lr: 0.02 }},
            learning_rate_scheduler+: {{ warmup_steps: 20 }},
            callbacks: [],
          }},
        }}"""
    )
    run = tmp_path / "run"
    allennlp("train", config, "-s", run, "--include-package", "elmo_plugin")
    metrics = json.loads((run / "metrics.json").read_text())
    assert unigrams > 2 * best
    for direction in ("", "forward_", "backward_"):
        assert best < metrics[f"best_validation_{direction}perplexity"] < 1.08 * best
    words = (run / "vocabulary" / "words.txt").read_text().splitlines()
    assert sorted(words[3:]) == sorted(SYMBOLS)
