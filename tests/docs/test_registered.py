"""The pages that list names agree with the code."""

import ast
import importlib
import re
from argparse import ArgumentParser

from allennlp.commands import Subcommand
from allennlp.common import Registrable

import elmo_plugin.plugin  # noqa: F401
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


def test_registered_names_are_on_their_page() -> None:
    """The expected names and kinds are those of AllenNLP's registry."""
    found = {
        (kind, name)
        for names, kinds in rows("registered.md", "Registered names")
        for name in re.findall("`([^`]+)`", re.sub(r"\([^)]*\)", "", names))
        for kind in kinds.split(", ")
        if "address" not in kind
    }
    assert found == registered()


def test_commands_are_on_their_page() -> None:
    """The expected commands are those of AllenNLP's registry."""
    found = {cells[0].strip("`").split()[0] for cells in rows("registered.md", "Commands")}
    assert found == {name for kind, name in registered() if kind == "command"}


def test_the_arguments_of_commands_are_on_their_page() -> None:
    """The expected names are those that each registered command's parser knows."""
    pages = {
        cells[0].strip("`"): cells[1] for cells in rows("stability.md", "Arguments of the commands")
    }
    parsers = ArgumentParser().add_subparsers()
    for kind, name in registered():
        if kind == "command":
            parser = Subcommand.by_name(name)().add_subparser(parsers)
            actions = [
                action for action in parser._actions if "--help" not in action.option_strings
            ]
            expected = [
                x
                for action in actions
                for x in action.option_strings or [action.metavar or action.dest]
            ]
            assert re.findall("`([^`]+)`", pages.pop(name)) == expected
    assert not pages


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
