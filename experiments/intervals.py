"""95 % intervals of shares, and of anything that is computed from resampled groups."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SAMPLES, SEED = 10_000, 0


class Interval(NamedTuple):
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self, form: str = ".1f") -> str:
        """`form`: of each number."""
        value, low, high = (format(x, form) for x in self)
        return f"{value} ({low} to {high})"


def wilson(n_right: float, n: int) -> Interval:
    """A share in percent (Wilson 1927). `n_right`: of `n` independent trials."""
    p, z = n_right / n, 1.96
    center = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return Interval(100 * p, 100 * float(center - half), 100 * float(center + half))


def resampled(
    value: Callable[[np.ndarray], np.ndarray], n_groups: int, samples: int = SAMPLES
) -> Interval:
    """
    The value of all groups, and the 2.5 and 97.5 % quantiles of that of groups drawn with
    replacement. `value`: from the numbers of groups of shape `(..., n_groups)` to a value for each
    row, of shape `(...)`. Rows whose value is NaN are left out.
    """
    drawn = np.random.default_rng(SEED).integers(n_groups, size=(samples, n_groups))
    low, high = np.nanquantile(value(drawn), (0.025, 0.975))
    return Interval(float(value(np.arange(n_groups))), float(low), float(high))
