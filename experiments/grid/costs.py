"""What runs cost, before they start."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import mean

from experiments.grid.cells import Cell, Grid
from experiments.rows import Row


class Costs:
    """
    Estimates in seconds of CPU. The cost of a run is taken to be proportional to its fraction of
    the data: that of finished runs of the same task, with ELMo or without, or else what the grid
    expects of the task.
    """

    def __init__(self, grid: Grid, rows: Sequence[Row]) -> None:
        self._expected = {name: task["seconds"] for name, task in grid.tasks.items()}
        found: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        for row in rows:
            settings = row["settings"]
            kind = settings["task"], settings["bilm"] != "none"
            found[kind].append(row["cpu_seconds"] / settings["fraction"])
        self._found = {kind: mean(seconds) for kind, seconds in found.items()}

    def __call__(self, cell: Cell) -> float:
        task, bilm, fraction = (cell.settings[key] for key in ("task", "bilm", "fraction"))
        return fraction * self._found.get((task, bilm != "none"), self._expected[task])
