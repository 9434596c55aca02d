"""Grids and their cells, as a jsonnet file describes them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common import Params

from elmo_plugin.files.digest import digest

SETTINGS = ("task", "bilm", "layers", "place", "fraction", "seed")


@dataclass(frozen=True)
class Cell:
    """
    A training run.

    # Parameters

    table : `str`
        First table that contains the cell.
    settings : `dict[str, Any]`
        The values of `SETTINGS`; without ELMo, `layers` and `place` are `None`.
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
        values = (self.settings[key] for key in SETTINGS)
        return "-".join(str(value) for value in values if value is not None)

    @property
    def config_digest(self) -> str:
        return digest(json.dumps(self.config, sort_keys=True).encode("utf-8"))

    def config_in(self, folders: dict[str, Path]) -> dict[str, Any]:
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
        By name: `pretrained`, or `like` and `seed` for one with initial weights.
    hours : `dict[str, float]`
        Core-hours allotted to each table.
    tables : `dict[str, list[Cell]]`
        Cells of each table; tables may share cells.
    """

    tasks: dict[str, dict[str, Any]]
    bilms: dict[str, dict[str, Any]]
    hours: dict[str, float]
    tables: dict[str, list[Cell]]

    def cells(self) -> list[Cell]:
        """All cells once, in the order of the tables."""
        return list({cell.key: cell for cells in self.tables.values() for cell in cells}.values())


def read_grid(file: Path) -> Grid:
    """
    Read a grid from a jsonnet file.

    # Raises

    `ValueError`
        If two cells have the same settings and different configs.
    """
    content = Params.from_file(str(file)).as_dict(quiet=True)
    seen: dict[str, Cell] = {}
    tables: dict[str, list[Cell]] = {}
    for table in content["tables"]:
        name = table["name"]
        tables[name] = []
        for found in table["cells"]:
            cell = Cell(name, found["settings"], found["config"])
            known = seen.setdefault(cell.key, cell)
            if known.config != cell.config:
                raise ValueError(f"{file}: {name}: expected one config for {cell.key}, found two")
            tables[name].append(known)
    hours = {table["name"]: table["hours"] for table in content["tables"]}
    return Grid(content["tasks"], content["bilms"], hours, tables)
