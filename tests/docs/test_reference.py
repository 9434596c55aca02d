"""The pages that list names agree with the code."""

import ast
import importlib
import inspect
import re
from argparse import ArgumentParser

from allennlp.commands import Subcommand
from allennlp.common import Registrable

import elmo_plugin.plugin  # noqa: F401
from docs.site import reference
from elmo_plugin import Elmo
from tests.docs.pages import ALL_BLOCKS, ROOT

KINDS = {"Subcommand": "command"}


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def registered() -> set[tuple[str, str]]:
    """The names that our packages register with AllenNLP, with their kinds."""
    return {
        (KINDS.get(base.__name__, base.__name__), name)
        for base, names in Registrable._registry.items()
        for name, (found, _) in names.items()
        if found.__module__.startswith(("elmo_plugin.", "allennlp_today."))
    }


def test_the_reference_is_that_of_the_code() -> None:
    """docs/reference.md is what the docstrings and the parsers make of it."""
    stored = reference.PAGE.read_text("utf-8")
    assert reference.page() == stored, "out of date: run `python -m docs.site.reference`"


def test_the_reference_has_each_name_with_its_arguments() -> None:
    """The expected names are those of AllenNLP's registry and of the parsers and signatures."""
    text = reference.PAGE.read_text("utf-8")
    parsers = ArgumentParser().add_subparsers()
    for kind, name in registered():
        heading = f"### `{name}`" + ("" if kind == "command" else f", {kind}") + "\n"
        section = re.split(r"^##", text.partition(heading)[2], flags=re.MULTILINE)[0]
        assert section, heading
        if kind == "command":
            parser = Subcommand.by_name(name)().add_subparser(parsers)
            for action in parser._actions:
                for x in action.option_strings or [action.metavar or action.dest]:
                    assert f"`{x}" in section or x in ("-h", "--help"), (name, x)
    for key in inspect.signature(Elmo).parameters.keys() - {"bilm", "keep_sentence_boundaries"}:
        assert f"\n| `{key}` |" in text, key


STABLE = {
    (module.strip("`"), name)
    for module, names in rows("stability.md", "Python names")
    for name in re.findall("`([^`]+)`", names)
}


def test_the_stable_names_exist() -> None:
    """Each name of the page is one of its module. Of the packages that users import from, the page
    has all of `__all__`."""
    for module, name in STABLE:
        assert hasattr(importlib.import_module(module), name), (module, name)
    packages = ("adapters", "corpora", "modules", "text")
    for module in ("elmo_plugin", *(f"elmo_plugin.{name}" for name in packages)):
        expected = importlib.import_module(module).__all__
        assert {name for where, name in STABLE if where == module} == set(expected)


def test_what_the_documentation_imports_is_stable() -> None:
    """By definition: a user may import what a page or a recipe does. A plugin's module is imported
    only to register what is in it."""
    codes = [block.code for block in ALL_BLOCKS if block.language == "python"]
    codes += [file.read_text("utf-8") for file in (ROOT / "recipes").glob("*.py")]
    imported = {
        (node.module, alias.name)
        for code in codes
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("elmo_plugin")
        for alias in node.names
    }
    assert imported and imported <= STABLE
