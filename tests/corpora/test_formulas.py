"""The formulas of test suites. The oracle is the documentation and the tests of syntaxgym-core."""

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.corpora.formulas import parse_formula

VALUES = {("a", "1"): 3.0, ("a", "2"): 4.0, ("b-2", "1"): 5.0, ("b-2", "*"): 9.0}


TRUE = [
    "5 - 4 - 3 < 0",  # these four are in test_prediction.py of syntaxgym-core
    "5+4=9-1+1",
    "5-(3+2)=0",
    "(5-3)+((2+1)-(2+2))=1",
    "(2;%a%) > (1;%a%)",
    "( 2 ; %a% )>(1;%a%)",
    "[(1;%a%) + (2;%a%)] > [(1;%b-2%) - 1]",
    "(*;%b-2%) - 2 * (2;%a%) = 1",
    "(*;%b-2%) - 2*[(2;%a%)-(1;%a%)] = 7",
    "(1;%a%)=(1;%a%)&(1;%a%)<(2;%a%)&(2;%a%)<(1;%b-2%)",
    "(1;%a%) > 3 | (1;%a%) = 3",
    "1 > 0 | 1 > 0 & 0 > 1",  # & binds tighter
    "-(1;%a%) < -2.5",
    "3 = 3.0009",  # approximately equal, by at most 0.001 and a hundred-thousandth
    "0.0001 > 0",  # the least difference that is none of rounding
]
FALSE = [
    "5 - 4 - 3 > 0",
    "(1;%a%) > (1;%a%)",
    "(2;%a%) > (1;%a%) & (2;%a%) < (1;%a%)",
    "1 > 0 & 1 > 0 & 0 > 1",  # the third is read too
    "[1 > 0 | 1 > 0] & 0 > 1",
    "(1;%a%) > 2.99995",  # a tie, because rounding alone gives such differences
    "3 = 3.0011",
]


@pytest.mark.parametrize("text", TRUE + FALSE)
def test_formulas(text: str) -> None:
    """By hand from the values above."""
    assert parse_formula(text, "f").holds(VALUES) is (text in TRUE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        *("(1;%a%)", "(1;%a%) + 1", "(1 > 0) + 1 > 0", "1 < 2 < 3", "1 <= 2", "1 > 0 &", "(1 > 0"),
        *("() > 0", "(1;%a%)[0] > 0", "(1;a) > 0", "(1;%%) > 0", "_0 > 0", "1 / 2 > 0"),
        *("not 1 > 0", "f(1) > 0"),
        "__import__('os') > 0",
        "1" * 5000 + " > 0",
        "(" * 5000 + "1" + ")" * 5000 + "> 0",
        "-" * 5000 + "1 > 0",
    ],
)
def test_others_are_refused(text: str) -> None:
    """By definition: one sentence that begins with the name. Nothing of it is run."""
    with pytest.raises(InputError, match=r"^f: formula: expected comparisons of regions, .* found"):
        parse_formula(text, "f")
