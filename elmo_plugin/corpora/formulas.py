"""
The formulas of SyntaxGym's test suites, which compare regions of the conditions of an item. They
are never run as code: Python's parser makes a tree of them, of which only what is named here is
computed.
"""

import ast
import re
from collections.abc import Sequence
from operator import add, mul, sub
from typing import Any, NamedTuple

import numpy as np

from elmo_plugin.checks import fail
from elmo_plugin.corpora.pairs import ROUNDING

TERM = re.compile(r"\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)")
"""A region of a condition in a formula, such as `(5;%plausible%)`."""

BESIDE_TERMS = re.compile(r"[\d.\s()\[\]<>=&|+*-]*")
PYTHON = str.maketrans({"[": "(", "]": ")", "=": "==", "&": " and ", "|": " or "})
"""The other characters of formulas, and what Python has for them."""

ARITHMETIC: dict[type, Any] = {ast.Add: add, ast.Sub: sub, ast.Mult: mul}
COMPARISONS: dict[type, Any] = {
    ast.Gt: lambda x, y: x - y >= ROUNDING,
    ast.Lt: lambda x, y: y - x >= ROUNDING,
    ast.Eq: lambda x, y: np.isclose(x, y, rtol=1e-5, atol=1e-3),  # as in syntaxgym-core
}


class Formula(NamedTuple):
    """`terms`: the condition and the region of each `ast.Name` in `tree`."""

    terms: list[tuple[str, str]]
    tree: ast.expr

    def holds(self, values: dict[tuple[str, str], float]) -> bool:
        """Whether it is true for the value of each region of each condition."""
        return _is_true(self.tree, [values[term] for term in self.terms])


def parse_formula(text: str, name: str) -> Formula:
    """Raises an `InputError`, which begins with `name`, for all but the formulas of the format."""
    terms = [(condition, region) for region, condition in TERM.findall(text)]
    numbers = iter(range(len(terms)))
    python = " ".join(TERM.sub(lambda _: f" _{next(numbers)} ", text).translate(PYTHON).split())
    try:
        if not BESIDE_TERMS.fullmatch(TERM.sub("", text)):
            raise ValueError
        tree = ast.parse(python, mode="eval").body
        _is_true(tree, [0.0] * len(terms))  # reads all of the formula
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        fail(f"{name}: formula", "comparisons of regions, such as (2;%a%) > (2;%b%)", text)
    return Formula(terms, tree)


def _is_true(tree: ast.AST, values: Sequence[float]) -> bool:
    match tree:
        case ast.BoolOp(operator, parts):
            every = all if isinstance(operator, ast.And) else any
            return every([_is_true(part, values) for part in parts])
        case ast.Compare(left, [operator], [right]) if type(operator) in COMPARISONS:
            compare = COMPARISONS[type(operator)]
            return bool(compare(_number(left, values), _number(right, values)))
    raise ValueError


def _number(tree: ast.AST, values: Sequence[float]) -> float:
    match tree:
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            return ARITHMETIC[type(operator)](_number(left, values), _number(right, values))
        case ast.UnaryOp(ast.USub(), operand):
            return -_number(operand, values)
        case ast.Constant(int() | float() as value):
            return float(value)
        case ast.Name(name):
            return values[int(name[1:])]
    raise ValueError
