"""Grids and their cells, as a jsonnet file describes them."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import _jsonnet

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest
from experiments.grid.bilms import bilm_sizes, check_bilms

TASK_KEYS = ("title", "data", "metric", "seconds")
TABLE_KEYS = ("name", "cells")
COLUMNS = "columns"
"""Key of table 1, optional: the biLMs that it is about. By default, the last one of each task."""
TABLES = ("table 1", "table 2", "table 3", "figure 1")
"""What the report shows."""
SETTINGS = ("task", "bilm", "layers", "place", "fraction", "seed", "repeated")


@dataclass(frozen=True)
class Cell:
    """
    A training run.

    # Parameters

    table : `str`
        First table that contains the cell.
    settings : `dict[str, Any]`
        The values of `SETTINGS`; without ELMo, `layers` and `place` are `None`. `repeated` is there
        only for a fraction that is.
    config : `dict[str, Any]`
        Complete AllenNLP config, in which `@NAME@` is a placeholder for a folder.
    """

    table: str
    settings: dict[str, Any]
    config: dict[str, Any]

    @property
    def key(self) -> str:
        """The settings as a string."""
        return json.dumps(self.settings, sort_keys=True)

    @property
    def name(self) -> str:
        values = (self.settings.get(key) for key in SETTINGS[:-1])
        return "-".join(str(value) for value in values if value is not None)

    @property
    def config_digest(self) -> str:
        return digest(json.dumps(self.config, sort_keys=True).encode("utf-8"))

    def config_in(self, folders: dict[str, Path | str]) -> dict[str, Any]:
        """The config with the placeholders replaced by this machine's folders."""
        text = json.dumps(self.config)
        for name, folder in folders.items():
            text = text.replace(f"@{name}@", json.dumps(str(folder))[1:-1])
        return json.loads(text)


class Grid(NamedTuple):
    """
    tasks : `dict[str, dict[str, Any]]`
        By name: `title`, `data`, the reported `metric`, and `seconds`, the expected cost of a run.
    bilms : `dict[str, dict[str, Any]]`
        By name: `pretrained`, `archive_file`, `options_file` and `weight_file`, `like` and
        `seed` of one with initial weights, or `transformer` and `dim` of a transformer.
    tables : `dict[str, list[Cell]]`
        Cells of each table; tables may share cells.
    columns : `Sequence[str]`, optional (default = `()`)
        The biLMs that table 1 is about; if there are none, the last one of each task.
    """

    tasks: dict[str, dict[str, Any]]
    bilms: dict[str, dict[str, Any]]
    tables: dict[str, list[Cell]]
    columns: Sequence[str] = ()

    def cells(self) -> list[Cell]:
        """All cells once, in the order of the tables."""
        return list({cell.key: cell for cells in self.tables.values() for cell in cells}.values())


def read_grid(file: Path) -> Grid:
    """
    Read a grid from a jsonnet file. The sizes of its biLMs are found here, for `cells.libsonnet`.

    # Raises

    `InputError`
        If the grid is not one, or if two cells have the same settings and different configs. The
        message is one line, which names the file and the key.
    """
    source = str(file)
    bilms = _evaluated(source, "bilms")
    check_bilms(source, bilms)
    sizes = {name: bilm_sizes(bilm) for name, bilm in bilms.items()}
    content = {key: _evaluated(source, key, sizes) for key in ("tasks", "tables")}
    check_content(source, content)
    seen: dict[str, Cell] = {}
    tables: dict[str, list[Cell]] = {}
    for table in content["tables"]:
        name = table["name"]
        tables[name] = []
        for found in table["cells"]:
            cell = Cell(name, found["settings"], found["config"])
            known = seen.setdefault(cell.key, cell)
            if known.config != cell.config:
                raise InputError(f"{file}: {name}: expected one config for {cell.key}, found two")
            tables[name].append(known)
    columns = [name for table in content["tables"] for name in table.get(COLUMNS, ())]
    unknown = [name for name in columns if name not in bilms]
    if unknown:
        expected = ", ".join(bilms)
        raise InputError(f"{source}: {COLUMNS}: expected biLMs among {expected}, found {unknown}")
    return Grid(content["tasks"], bilms, tables, columns)


def _evaluated(source: str, key: str, sizes: dict[str, Any] | None = None) -> Any:
    """The value of a key of the jsonnet file."""
    variables = {**os.environ, "BILM_SIZES": json.dumps(sizes)}
    code = f"(import {json.dumps(os.path.abspath(source))})[{json.dumps(key)}]"
    try:
        return json.loads(_jsonnet.evaluate_snippet(source, code, ext_vars=variables))
    except RuntimeError as error:  # with lines of where it was evaluated
        raise InputError(f"{source}: {str(error).splitlines()[0]}") from None


def check_content(source: str, content: dict[str, Any]) -> None:
    """Raises an `InputError` if the tasks or tables lack a key, or are of another kind."""
    tasks, tables = content["tasks"], content["tables"]
    if not isinstance(tasks, dict) or not isinstance(tables, list):
        raise InputError(f"{source}: expected tasks, an object, and tables, a list, found others")
    parts: list[tuple[str, Any, tuple[str, ...]]]
    parts = [(f"tasks: {name}", task, TASK_KEYS) for name, task in tasks.items()]
    parts += [(f"tables: {n}", table, TABLE_KEYS) for n, table in enumerate(tables)]
    for name, part, keys in parts:
        missing = [key for key in keys if not isinstance(part, dict) or key not in part]
        if missing:
            raise InputError(
                f"{source}: {name}: expected {', '.join(keys)}, found no {' and no '.join(missing)}"
            )
    for table in tables:
        if table["name"] not in TABLES:
            raise InputError(
                f"{source}: tables: expected names among {', '.join(TABLES)}, found "
                f"{table['name']!r}"
            )
        for cell in table["cells"]:
            if cell["settings"]["task"] not in tasks:
                raise InputError(
                    f"{source}: tables: {table['name']}: expected tasks among {', '.join(tasks)}, "
                    f"found {cell['settings']['task']}"
                )
            if not cell["config"].get("validation_data_path"):
                raise InputError(
                    f"{source}: tables: {table['name']}: {cell['settings']['task']}: expected a "
                    "config with validation_data_path, whose metrics are reported, found none"
                )
