"""Makes mkdocstrings read AllenNLP-style docstrings by converting their sections to NumPy style."""

import re
from typing import Any

import griffe

SECTION = re.compile(r"^# (Parameters|Returns|Raises|Yields)\n\n?", re.MULTILINE)
TYPE = re.compile(r"^((?:\w+ : )?)`([^`]+)`", re.MULTILINE)


class AllenNLPDocstrings(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text, *sections = SECTION.split(obj.docstring.value)
            for name, body in zip(sections[::2], sections[1::2]):
                if name == "Parameters" or body.startswith("`"):
                    text += f"{name}\n{'-' * len(name)}\n" + TYPE.sub(r"\1\2", body)
                else:  # a sentence
                    text += f"**{name}:** {body}"
            obj.docstring.value = text
