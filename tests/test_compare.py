import re

import numpy as np
import pytest
import torch

from tests.compare import assert_close


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        ([1.0, 2.5], [1.0, 2.0], "1 of 2 numbers differ; at (1,) expected 2, found 2.5"),
        (torch.tensor([np.nan]), [np.nan], "expected nan, found nan"),
        (np.inf, 1.0, "expected 1, found inf"),
        ([[1.0]], [1.0], "expected the shape (1,), found (1, 1)"),
    ],
)
def test_differences_are_named(actual, expected, message):
    """NaN is close to nothing, and no shape is broadcast."""
    with pytest.raises(AssertionError, match=f"^weights: .*{re.escape(message)}"):
        assert_close(actual, expected, what="weights", atol=0.4)


def test_close_numbers_pass():
    """The tolerances are 0.1 absolute and 10 % relative, and the same infinity is close."""
    assert_close([1.1, 10.9, -np.inf], [1.0, 10.0, -np.inf], what="weights", atol=0.1, rtol=0.1)
