"""Makes mkdocstrings read AllenNLP-style docstrings by converting their sections to NumPy style."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe

SECTION = re.compile(r"^# (Parameters|Returns|Raises|Yields)\n\n?", re.MULTILINE)
TYPE = re.compile(r"^((?:\w+(?:, \w+)* : )?)`([^`]+)`", re.MULTILINE)
PASSED_ON = re.compile(r"^kwargs\n((?: +.*\n)*? +.*: see `Elmo`\.)", re.MULTILINE)
"""Parameters that a class passes on to `Elmo`, without their descriptions."""
ELMO = Path(__file__).parents[2] / "elmo_plugin" / "elmo" / "elmo.py"


class AllenNLPDocstrings(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = converted(obj.docstring.value)


def converted(docstring: str) -> str:
    text, *sections = SECTION.split(docstring)
    for name, body in zip(sections[::2], sections[1::2]):
        if name == "Parameters" or body.startswith("`"):
            body = PASSED_ON.sub(lambda found: described(found[1]), body)
            text += f"{name}\n{'-' * len(name)}\n" + TYPE.sub(r"\1\2", body)
        else:  # a sentence
            text += f"**{name}:** {body}"
    return text


def described(names: str) -> str:
    """The entries of the docstring of `Elmo` for the parameters in backticks."""
    entries = elmo_parameters()
    wanted = re.findall(r"`(\w+)`", names.rpartition(":")[0])
    return "\n".join(entries[name] for name in wanted)


@cache
def elmo_parameters() -> dict[str, str]:
    classes = [x for x in ast.parse(ELMO.read_text("utf-8")).body if isinstance(x, ast.ClassDef)]
    (text,) = (ast.get_docstring(x) or "" for x in classes if x.name == "Elmo")
    sections = SECTION.split(text)
    entries = re.split(r"\n(?=\S)", sections[sections.index("Parameters") + 1].strip())
    return {entry.partition(" : ")[0]: entry for entry in entries}
