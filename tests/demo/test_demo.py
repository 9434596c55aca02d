"""These tests check the demo's claim about its biLM, on numbers made by hand."""

import pytest

from demo.__main__ import comparison, not_beaten

NGRAMS = {"unigram": 500.0, "forward_bigram": 180.0, "backward_bigram": 320.0}
BILM = {"forward_perplexity": 100.0, "backward_perplexity": 225.0, "perplexity": 150.0}


def test_comparison() -> None:
    """A unigram has no direction. The joint perplexity is the root of 180 * 320 = 240 ** 2."""
    assert comparison(NGRAMS, BILM) == {
        "unigram": (500, 500, 500),
        "bigram, Kneser-Ney": (180, 320, pytest.approx(240)),
        "biLM": (100, 225, 150),
    }


@pytest.mark.parametrize(
    "perplexities, expected",
    [
        ({}, []),
        ({"forward_perplexity": 180.0}, ["bigram, Kneser-Ney (forward): 180.0 against 180.0"]),
        (
            {"backward_perplexity": 600.0},
            [
                "unigram (backward): 600.0 against 500.0",
                "bigram, Kneser-Ney (backward): 600.0 against 320.0",
            ],
        ),
        (
            {"perplexity": float("nan")},
            ["unigram (joint): nan against 500.0", "bigram, Kneser-Ney (joint): nan against 240.0"],
        ),
    ],
    ids=["better", "as good in one direction", "worse in one direction", "not a number"],
)
def test_not_beaten(perplexities: dict[str, float], expected: list[str]) -> None:
    """An equal perplexity is not beaten, and NaN beats nothing."""
    assert not_beaten(comparison(NGRAMS, BILM | perplexities)) == expected
