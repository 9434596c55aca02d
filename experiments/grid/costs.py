"""Estimates the cost of runs before they start."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from experiments.grid.cells import Cell, Grid
from experiments.rows import Row


class Costs:
    """
    Estimates in CPU seconds: the mean of finished runs of the same task and fraction of the data,
    with or without ELMo. If there are none, the cost is assumed proportional to the fraction, based
    on the runs with the largest fraction or on the grid's expected cost of the task.
    """

    def __init__(self, grid: Grid, rows: Sequence[Row]) -> None:
        self._expected = {name: task["seconds"] for name, task in grid.tasks.items()}
        self._found: defaultdict[tuple[str, bool], dict[float, list[float]]] = defaultdict(dict)
        for row in rows:
            settings = row["settings"]
            found = self._found[settings["task"], settings["bilm"] != "none"]
            found.setdefault(_fraction(settings), []).append(row["cpu_seconds"])

    def __call__(self, cell: Cell) -> float:
        task, bilm = cell.settings["task"], cell.settings["bilm"]
        fraction = _fraction(cell.settings)
        found = self._found.get((task, bilm != "none"))
        if not found:
            return fraction * self._expected[task]
        nearest = fraction if fraction in found else max(found)
        return mean(found[nearest]) * fraction / nearest


def _fraction(settings: Mapping[str, Any]) -> float:
    """The part of the training data that is as long as an epoch."""
    return 1 if settings.get("repeated") else settings["fraction"]
