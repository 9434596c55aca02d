"""Jsonnet in the documentation."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _jsonnet import evaluate_snippet
from allennlp.common import Registrable
from allennlp.common.plugins import import_plugins

# What `experiments.grid` finds for the biLMs of the pages' grids.
SIZES = {name: {"dim": 256, "max_characters_per_token": 50} for name in ("mine", "small")}

import_plugins()  # all of allennlp-models, whose names configs use


def evaluate(code: str, folder: Path, **variables: str) -> dict[str, Any]:
    """The value of a block, whose imports are relative to `folder`. Keys and values without braces,
    as a reader would put them into a config, are a value with braces around them. As in AllenNLP,
    environment variables are jsonnet's external ones."""
    if re.match(r"(//.*\n)*\w+\+?:", code):
        code = "{" + code + "\n}"
    file = str(folder / "block.jsonnet")
    return json.loads(
        evaluate_snippet(
            file, code, ext_vars={**os.environ, "BILM_SIZES": json.dumps(SIZES), **variables}
        )
    )


def types(value: Any) -> Iterator[str]:
    """All values of keys named `type`."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value["type"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from types(item)


def registered_names() -> set[str]:
    return {name for names in Registrable._registry.values() for name in names}
