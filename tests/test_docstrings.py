"""Docstrings have the one form that CONTRIBUTING.md describes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILES = [
    file
    for name in ("elmo_plugin", "allennlp_today", "benchmarks", "experiments", "demo")
    for file in sorted((ROOT / name).rglob("*.py"))
]
HEADER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", re.MULTILINE)
TEXT = re.compile(r"`[^`]+`(, optional(?: \(default = `(.+)`\))?)?")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_parameters_have_the_defaults_of_the_signature(file: Path) -> None:
    """The expected defaults are those in the code. A default that has a name is not compared."""
    for name, documented, defaults in documented_parameters(ast.parse(file.read_text("utf-8"))):
        for parameters, text in HEADER.findall(documented):
            found = TEXT.fullmatch(text)
            assert found, f"{name}: {parameters} : {text}"
            for parameter in parameters.split(", "):
                default = defaults.get(parameter)
                message = f"{name}: {parameter}: {ast.unparse(default) if default else 'required'}"
                assert bool(found[1]) == bool(default), message
                if isinstance(default, ast.Constant):
                    expected = default.value
                    assert found[2] == (None if expected is None else literal(expected)), message


def documented_parameters(
    tree: ast.Module,
) -> Iterator[tuple[str, str, dict[str, ast.expr | None]]]:
    """The section of parameters of each class and function, and their defaults."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        _, _, section = (ast.get_docstring(node) or "").partition("# Parameters\n")
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        defaults: dict[str, ast.expr | None] = {}
        for item in body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                defaults[item.target.id] = item.value
            elif isinstance(item, ast.FunctionDef) and item.name in ("__init__", node.name):
                positional = item.args.posonlyargs + item.args.args
                missing = [None] * (len(positional) - len(item.args.defaults))
                values = [*missing, *item.args.defaults, *item.args.kw_defaults]
                names = [argument.arg for argument in positional + item.args.kwonlyargs]
                defaults.update(zip(names, values, strict=True))
        yield node.name, re.split(r"^# ", section, flags=re.MULTILINE)[0], defaults


def literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
