"""The rows of test suites and their tables."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from experiments import syntaxgym
from experiments.rows import read_rows


def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, from what `score --suites` prints and the items of a published model in two seeds,
    of which one has nothing right. The rows of a second run replace those of the same models."""
    suite = {"level": "suite", "name": "cleft", "items": 4, "accuracy": 50.0, "formula_1": 75.0}
    scores = "\n".join(map(json.dumps, (suite, {"level": "all"})))
    (tmp_path / "scores").write_text(scores)
    items = [f"rnng_x_{seed},cleft,{k},{seed == 1}" for seed in (1, 2) for k in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["model,suite,item,correct", *items]))
    rows = tmp_path / "rows.jsonl"
    arguments = ["--bilm", "small", "--scores", tmp_path / "scores", "--results", rows]
    arguments += ["--published", tmp_path / "a.csv"]
    monkeypatch.setattr(sys, "argv", ["syntaxgym", *map(str, arguments)])
    for _ in range(2):
        syntaxgym.main()
    *seeds, own = read_rows(rows)
    assert own == {"model": "small", "suite": "cleft", "items": 4, "right": 2, "first": 3}
    assert [(row["seed"], row["first"]) for row in seeds] == [("x_1", 4), ("x_2", 0)]
    found = syntaxgym.accuracies(read_rows(rows), "first")
    assert found == {"small": {"cleft": 75}, "rnng": {"cleft": 50}}


def test_interval() -> None:
    """The oracle is the normal distribution of a mean of many values."""
    values = np.random.default_rng(1).normal(50, 10, 2000)
    low, high = syntaxgym.interval(list(values))
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert [low, high] == pytest.approx([values.mean() - error, values.mean() + error], abs=0.03)


def test_interval_over_items() -> None:
    """The oracles are the quantiles of Jeffreys' posterior distribution, and for many items the
    normal distribution of a mean of two shares."""
    for right, n in ((4, 4), (3, 19)):
        expected = 100 * beta.ppf([0.025, 0.975], right + 0.5, n - right + 0.5)
        assert syntaxgym.items_interval([(right, n)]) == pytest.approx(expected, abs=1)
    error = 1.96 * np.sqrt(0.5 * 0.5 / 2000 + 0.2 * 0.8 / 2000) / 2
    expected = 100 * np.array([0.35 - error, 0.35 + error])
    found = syntaxgym.items_interval([(1000, 2000), (400, 2000)])
    assert found == pytest.approx(expected, abs=0.1)


def test_the_committed_rows() -> None:
    """Expected: those of 34 suites for each model and seed, as Hu et al. (2020) publish them, with
    the means over the suites by the first formula that are given with the data."""
    found = syntaxgym.accuracies(read_rows(syntaxgym.FILE), "first")
    assert found.keys() == {*syntaxgym.PUBLISHED, "small", "medium"}
    assert {len(suites) for suites in found.values()} == {34}
    assert {syntaxgym.circuit_of(x) for x in found["small"] if not x.startswith("nn-nv")} == {
        *syntaxgym.CIRCUITS.values()
    }
    means = {model: np.mean(list(suites.values())) for model, suites in found.items()}
    published = {"vanilla": 38.7, "ordered-neurons": 48.0, "grnn": 53.2, "jrnn": 58.7}
    published |= {"transformer-xl": 58.7, "rnng": 58.8, "gpt-2-pretrained": 78.1}
    published |= {"gpt-2-xl-pretrained": 83.1}
    for model, mean in published.items():
        assert means[model] == pytest.approx(mean, abs=0.05)
