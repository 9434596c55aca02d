"""The comparison of numbers in all tests."""

from typing import Any

import numpy as np
import torch


def assert_close(actual: Any, expected: Any, *, what: str, atol: float, rtol: float = 0.0) -> None:
    """Fail unless all numbers of two tensors, arrays or lists of one shape, or two numbers, agree
    within `atol + rtol * |expected|`; NaN is never close. The message names the worst difference,
    its place, and the tolerance; `what` is its name for the numbers."""
    __tracebackhide__ = True
    actual, expected = _array(actual), _array(expected)
    assert actual.shape == expected.shape, (
        f"{what}: expected the shape {expected.shape}, found {actual.shape}"
    )
    same = actual == expected  # infinities too
    with np.errstate(invalid="ignore"):
        excess = np.abs(actual - expected) - (atol + rtol * np.abs(expected))
    if not (wrong := ~(same | (excess <= 0))).any():
        return
    worst = np.unravel_index(
        np.where(same, -np.inf, np.nan_to_num(excess, nan=np.inf)).argmax(), actual.shape
    )
    raise AssertionError(
        f"{what}: {wrong.sum()} of {wrong.size} numbers differ; at {tuple(map(int, worst))} "
        f"expected {expected[worst]:.9g}, found {actual[worst]:.9g}, "
        f"a difference of {abs(actual[worst] - expected[worst]):.3g}; allowed "
        f"are {atol} + {rtol} x {abs(expected[worst]):.3g}"
    )


def cosine(actual: Any, expected: Any) -> float:
    """The cosine of two tensors as vectors, in double precision: with a million numbers, single
    precision is off by more than 1e-4."""
    actual, expected = _array(actual).ravel(), _array(expected).ravel()
    return float(actual @ expected / (np.linalg.norm(actual) * np.linalg.norm(expected)))


def _array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    return np.asarray(x, dtype=np.float64)
