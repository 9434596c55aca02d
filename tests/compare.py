"""The comparison of numbers in all tests."""

from typing import Any

import numpy as np
import torch


def assert_close(actual: Any, expected: Any, *, what: str, atol: float, rtol: float = 0.0) -> None:
    """Fail unless two tensors, arrays, lists or numbers have one shape and all numbers agree within
    `atol + rtol * |expected|`; NaN is never close. `what` is their name in the message."""
    __tracebackhide__ = True
    close = {"rtol": rtol, "atol": atol, "equal_nan": False, "strict": True}
    np.testing.assert_allclose(_array(actual), _array(expected), err_msg=what, **close)


def cosine(actual: Any, expected: Any) -> float:
    """The cosine of two tensors as vectors, in double precision: with a million numbers, single
    precision is off by more than 1e-4."""
    actual, expected = _array(actual).ravel(), _array(expected).ravel()
    return float(actual @ expected / (np.linalg.norm(actual) * np.linalg.norm(expected)))


def _array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    return np.asarray(x, dtype=np.float64)
