"""Means, deviations and differences over seeds."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

from scipy.stats import ttest_ind

from elmo_plugin.checks import InputError
from experiments.grid.cells import Cell, Grid
from experiments.rows import Row

NOT_RUN = "not run yet"


class Summary(NamedTuple):
    """
    values : `list[float]`
        The reported metric in percent, one per finished seed.
    n_seeds : `int`
        Number of seeds in the grid.
    rows : `list[Row]`
        Rows of `values`.
    """

    values: list[float]
    n_seeds: int
    rows: list[Row]

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; `None` with one value."""
        return stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        if not self.n_seeds:
            return ""
        if not self.values:
            return NOT_RUN
        deviation = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        of = "" if len(self.values) == self.n_seeds else f" of {self.n_seeds}"
        return f"{self.mean:.2f}{deviation} ({len(self.values)}{of})"


NOT_IN_GRID = Summary([], 0, [])
"""That of a cell that a grid leaves out."""


class Results:
    """
    The rows of the cells of a grid.

    # Parameters

    grid : `Grid`
    rows : `Sequence[Row]`
    source : `str`, optional (default = `"rows"`)
        Where the rows are from, for messages.

    # Raises

    `ValueError`
        If a cell has two rows, or two biLMs have the same name.
    """

    def __init__(self, grid: Grid, rows: Sequence[Row], source: str = "rows") -> None:
        self.grid = grid
        cells = {cell.key: cell for cell in grid.cells()}
        self.rows: dict[str, Row] = {}
        digests: dict[str, str | None] = {}
        for row in rows:
            cell = cells.get(row["key"])
            if cell is None or cell.config_digest != row["config_digest"]:
                continue
            name, digest = cell.settings["bilm"], row["bilm_digest"]
            if digests.setdefault(name, digest) != digest:
                raise ValueError(
                    f"{source}: expected one biLM called {name}, found the bilm_digests "
                    f"{digests[name]} and {digest}; remove the rows of the older one"
                )
            if cell.key in self.rows:
                raise ValueError(f"{source}: expected one row of {cell.key}, found two")
            self.rows[cell.key] = row
        self._groups: defaultdict[str, list[Cell]] = defaultdict(list)
        for cell in cells.values():
            self._groups[_group(cell.settings)].append(cell)

    def summary(self, settings: Mapping[str, Any], seeds: Collection[int] | None = None) -> Summary:
        """
        The results of these settings with each seed of the grid, or only of `seeds`. A seed in the
        settings is ignored.

        # Raises

        `InputError`
            If a row lacks the metric of its task.
        """
        cells = sorted(self._groups[_group(settings)], key=lambda cell: cell.settings["seed"])
        if seeds is not None:
            cells = [cell for cell in cells if cell.settings["seed"] in seeds]
        rows = [self.rows[cell.key] for cell in cells if cell.key in self.rows]
        metric = self.grid.tasks[settings["task"]]["metric"]
        for row in rows:
            if metric not in row["metrics"]:
                raise InputError(
                    f"tasks: {settings['task']}: metric: expected one of "
                    f"{', '.join(row['metrics'])}, found {metric!r}"
                )
        return Summary([100 * row["metrics"][metric] for row in rows], len(cells), rows)

    def baseline(
        self, settings: Mapping[str, Any], seeds: Collection[int] | None = None
    ) -> Summary:
        """The same task and data without ELMo."""
        return self.summary({**settings, "bilm": "none", "layers": None, "place": None}, seeds)

    def seeds(self, table: str) -> set[int]:
        """
        The seeds of a table, so that compared results have the same seeds. Another table may have
        more seeds of the same settings.
        """
        return {cell.settings["seed"] for cell in self.grid.tables[table]}


def _group(settings: Mapping[str, Any]) -> str:
    """The settings without the seed."""
    rest = {key: value for key, value in settings.items() if key != "seed"}
    return json.dumps(rest, sort_keys=True)


def significant(pairs: Sequence[tuple[Summary, Summary]]) -> list[bool]:
    """
    Whether the means of each pair differ at the 5 % level, by Welch's t-test over the seeds with
    Holm's correction (1979) for the number of pairs that have a test.
    """
    found = [False] * len(pairs)
    tests = {k: test.pvalue for k, pair in enumerate(pairs) if (test := _welch(*pair))}
    for rank, k in enumerate(sorted(tests, key=tests.__getitem__)):
        if tests[k] > 0.05 / (len(tests) - rank):
            break
        found[k] = True
    return found


def differences(pairs: Sequence[tuple[Summary, Summary]]) -> list[str]:
    """
    For each pair of means the second minus the first, in bold if it is `significant` among all, and
    the 95 % confidence interval of the difference, which is not corrected.
    """
    texts = []
    for (before, after), is_significant in zip(pairs, significant(pairs)):
        if not before.values or not after.values:
            texts.append(NOT_RUN if before.n_seeds and after.n_seeds else "")
            continue
        text = f"{after.mean - before.mean:+.2f}"
        text = f"**{text}**" if is_significant else text
        if test := _welch(before, after):
            low, high = test.confidence_interval(0.95)
            text += f" ({low:+.2f} to {high:+.2f})"
        texts.append(text)
    return texts


def _welch(before: Summary, after: Summary) -> Any:
    """Welch's t-test. `None` if one has fewer than two seeds, or if neither varies."""
    if before.deviation is None or after.deviation is None:
        return None
    if not before.deviation and not after.deviation:
        return None
    return ttest_ind(after.values, before.values, equal_var=False)


def error_reduction(before: float, after: float) -> float:
    """The relative error reduction in percent."""
    return 100 * (after - before) / (100 - before)
