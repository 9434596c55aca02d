"""The rows of test suites and their tables."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from experiments import syntaxgym
from experiments.rows import read_rows

SUITES = {"cleft": (4, 4), "number_src": (2, 1), "fgd-embed3": (3, 0)}
"""The items of a suite, and how many of them a model has right."""


def scores(shift: int) -> list[dict]:
    """What `score --suites` prints."""
    rows = [
        {
            "level": "suite",
            "name": name,
            "items": n,
            "accuracy": round(100 * (right - shift) / n, 2),
            "formula_1": round(100 * right / n, 2),
        }
        for name, (n, right) in SUITES.items()
    ]
    return [*rows, {"level": "all"}]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of a biLM, and of a published model in two seeds, of which one has nothing right."""
    (tmp_path / "scores").write_text("\n".join(map(json.dumps, scores(0))))
    lines = ["model,suite,item,correct"]
    for seed, is_right in (("x_1", 1), ("x_2", 0)):
        for suite, (n, right) in SUITES.items():
            lines += [f"rnng_{seed},{suite},{k},{bool(is_right and k < right)}" for k in range(n)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    out = tmp_path / "syntaxgym.jsonl"
    arguments = ["--bilm", "small", "--scores", tmp_path / "scores"]
    arguments += ["--published", tmp_path / "a.csv", "--results", out]
    for more in ([], ["--bilm", "medium"]):
        monkeypatch.setattr(sys, "argv", ["syntaxgym", *map(str, [*arguments, *more])])
        syntaxgym.main()
    return out


def test_rows(results: Path) -> None:
    """By hand. The rows of a second run replace those of the same models."""
    rows = read_rows(results)
    assert len(rows) == 12
    assert rows[0] == {"model": "small", "suite": "cleft", "items": 4, "right": 4, "first": 4}
    models = [(row["model"], row.get("seed")) for row in rows]
    assert dict.fromkeys(models).keys() == {
        *(("small", None), ("medium", None), ("rnng", "x_1"), ("rnng", "x_2"))
    }
    found = syntaxgym.accuracies(rows, "first")
    assert found["small"] == {"cleft": 100, "number_src": 50, "fgd-embed3": 0}
    assert found["rnng"] == {"cleft": 50, "number_src": 25, "fgd-embed3": 0}
    assert list(syntaxgym.accuracies(rows, "right")) == ["small", "medium"]


def test_tables(results: Path) -> None:
    """By hand: the means over the two suites that the authors count, and over all three; resampling
    two suites gives one of them twice in a quarter of the samples."""
    found = syntaxgym.sections(results.parent, results.parent)
    text = found["Test suites (SyntaxGym)"]
    assert (
        "| RNNG | 37.5 (25.0 to 50.0) | 37.5 (25.0 to 50.0) | 37.5 (25.0 to 50.0) | 25.0 |  |"
        in text
    )
    assert "| `small` | 75.0 (50.0 to 100.0) |  | 0.0 (0.0 to 0.0) | 50.0 | 50.0 |" in text
    cells = "50 | 100 (55 to 100) | 100 (55 to 100) |"
    assert f"| long-distance dependencies | 1 | {cells}" in text
    by_suite = found["SyntaxGym by suite"]
    assert f"| cleft | 4 | {cells}" in by_suite
    assert "| fgd-embed3 * | 3 | 0 |" in by_suite
    assert "37.5 %" in (results.parent / "syntaxgym.svg").read_text()


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
