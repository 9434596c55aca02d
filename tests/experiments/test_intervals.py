"""Intervals of shares and of resampled groups."""

import numpy as np
import pytest
from scipy.stats import binomtest

from experiments.intervals import Interval, resampled, wilson


@pytest.mark.parametrize(("n_right", "n"), [(33, 41), (265, 369), (0, 9), (9, 9)])
def test_wilson(n_right: int, n: int) -> None:
    """Expected: SciPy's interval of Wilson."""
    expected = binomtest(n_right, n).proportion_ci(method="wilson")
    found = wilson(n_right, n)
    numbers = 100 * n_right / n, 100 * expected.low, 100 * expected.high
    assert found == pytest.approx(numbers, abs=0.01)


def test_resampled_mean() -> None:
    """Expected: the normal interval of the mean of many groups. Samples that are NaN are left
    out, and groups that do not vary have an interval without width."""
    x = np.random.default_rng(1).normal(5, 2, size=400)
    found = resampled(lambda own: x[own].mean(axis=-1), len(x))
    half = 1.96 * x.std() / np.sqrt(len(x))
    assert found == pytest.approx((x.mean(), x.mean() - half, x.mean() + half), abs=0.01)
    with_nan = resampled(lambda own: np.where((own == 0).any(-1), np.nan, 3.0) + 0 * own[..., 0], 2)
    assert np.isnan(with_nan.value) and with_nan[1:] == (3, 3)


def test_text() -> None:
    """By hand."""
    assert Interval(0.456, -0.1, 1).text("+.2f") == "+0.46 (-0.10 to +1.00)"
    assert wilson(12, 12).text() == "100.0 (75.7 to 100.0)"
