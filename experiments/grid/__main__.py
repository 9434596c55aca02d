import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from allennlp.common.plugins import import_plugins
from allennlp.common.util import import_module_and_submodules

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest
from experiments import grid as package
from experiments import new_parser
from experiments import run as run_command
from experiments.grid.bilms import Bilm, find_bilms
from experiments.grid.cells import SETTINGS, Cell, Grid, read_grid
from experiments.grid.training import LOG, RESULT, train
from experiments.rows import ORIGIN, RESULTS, Row, append_row, known_rows


class Run(NamedTuple):
    """A started run: its process and output folder."""

    cell: Cell
    out: Path
    process: BaseProcess


class GridRunner:
    """
    Trains the cells of a grid that have no row yet.

    # Parameters

    grid : `Grid`
    rows_file : `Path`
        JSON Lines file of the rows.
    data : `Path`
        Folder of the data.
    work : `Path`
        Folder for runs, biLMs with initial weights, and the layer cache.
    """

    def __init__(self, grid: Grid, rows_file: Path, data: Path, work: Path) -> None:
        self.grid = grid
        self.rows_file = rows_file
        self.work = work.resolve()
        self.bilms = find_bilms(grid.bilms, self.work, data.resolve())
        self.folders: dict[str, Path | str] = {"data": data.resolve(), "work": self.work}
        self.folders |= {name: bilm.path for name, bilm in self.bilms.items()}

    def left(self, where: dict[str, set[str]]) -> list[Cell]:
        """
        The cells without a row whose settings and table match `where`, in the order of the grid.
        """
        done = {(r["key"], r["config_digest"], r["bilm_digest"]) for r in self._rows()}
        return [
            cell
            for cell in self.grid.cells()
            if all(
                str({**cell.settings, "table": cell.table}.get(key)) in values
                for key, values in where.items()
            )
            and (cell.key, cell.config_digest, self._bilm_digest(cell)) not in done
        ]

    def costs(self, cells: Sequence[Cell]) -> list[float]:
        """
        The expected CPU seconds of each cell: the mean of finished runs of the same task and
        fraction of the data, with or without ELMo, or what the grid expects.
        """
        rows, found = self._rows(), []
        for cell in cells:
            kind = task, _, fraction = _kind(cell.settings)
            same = [row["cpu_seconds"] for row in rows if _kind(row["settings"]) == kind]
            found.append(mean(same) if same else fraction * self.grid.tasks[task]["seconds"])
        return found

    def run(self, cells: Sequence[Cell], jobs: int = 1) -> int:
        """
        Train cells in `jobs` processes. Returns the number of failed runs, whose folders are kept.
        """
        waiting, running, failed = list(cells), dict[int, Run](), 0
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    run = self._start(waiting.pop(0))
                    running[run.process.sentinel] = run
                for sentinel in wait(list(running)):
                    failed += self._finish(running.pop(sentinel)) is None  # type: ignore[arg-type]
        finally:
            for run in running.values():
                run.process.kill()
                run.process.join()
                if not _continues():
                    shutil.rmtree(run.out)
        return failed

    def _rows(self) -> list[Row]:
        return known_rows(self.rows_file)

    def _bilm_digest(self, cell: Cell) -> str | None:
        bilm: Bilm | None = self.bilms.get(cell.settings["bilm"])
        return bilm and bilm.digest

    def _start(self, cell: Cell) -> Run:
        # A run of the same config, biLM, data folder, code and processor has the same folder.
        bilm, data = self._bilm_digest(cell), str(self.folders["data"])
        facts: list[Any] = [cell.key, cell.config_digest, bilm, data, ORIGIN]
        if not _continues():
            facts.append(time.time_ns())
        out = self.work / "runs" / f"{cell.name}-{digest(json.dumps(facts).encode())[:8]}"
        out.mkdir(parents=True, exist_ok=True)
        # A forked process does not import AllenNLP again, and runs the code of `commit`.
        process = multiprocessing.get_context("fork").Process(
            target=train, args=(cell.config_in(self.folders), out)
        )
        process.start()
        return Run(cell, out, process)

    def _finish(self, run: Run) -> Row | None:
        run.process.join()
        print(time.strftime("%H:%M:%S"), run.cell.name, end=" ")
        if run.process.exitcode != 0:
            log = (run.out / LOG).read_text("utf-8", "replace") if (run.out / LOG).exists() else ""
            last = ([line for line in log.splitlines() if line.strip()] or [""])[-1]
            print(f"failed with {run.process.exitcode}: {run.out / LOG}: {last}", flush=True)
            return None
        result = json.loads((run.out / RESULT).read_text())
        row: dict[str, Any] = {
            "key": run.cell.key,
            "settings": run.cell.settings,
            "config_digest": run.cell.config_digest,
            "bilm_digest": self._bilm_digest(run.cell),
            **result,
            **ORIGIN,
        }
        append_row(self.rows_file, row)
        shutil.rmtree(run.out)
        metric = self.grid.tasks[run.cell.settings["task"]]["metric"]
        value = row["metrics"].get(metric, f"expected one of {', '.join(row['metrics'])}")
        print(f"{metric}: {value}, {row['cpu_seconds']:.0f} s", flush=True)
        return row


def _kind(settings: dict[str, Any]) -> tuple[str, bool, float]:
    """What the cost of a run depends on. A part that is repeated is as long as the whole."""
    fraction = 1 if settings.get("repeated") else settings["fraction"]
    return settings["task"], settings["bilm"] != "none", fraction


def _continues() -> bool:
    """Whether killed runs continue: not if the code has changed since its commit."""
    return not str(ORIGIN["commit"]).endswith("-dirty")


def main() -> None:
    parser = new_parser(package.__doc__)
    parser.prog = "python -m experiments.grid"
    parser.add_argument("grid", type=Path, help="jsonnet file")
    parser.add_argument("--rows", type=Path, default=RESULTS / "rows.jsonl")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    parser.add_argument(
        "--where", nargs="+", default=[], metavar="KEY=VALUE", help="only cells like these"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--dry-run", action="store_true", help="list the cells that are left")
    arguments = parser.parse_args()
    where: dict[str, set[str]] = {}
    for condition in arguments.where:
        key, _, value = condition.partition("=")
        keys = (*SETTINGS, "table")
        if key not in keys or not value:
            parser.error(
                f"--where: expected KEY=VALUE with one of {', '.join(keys)}; found {condition!r}"
            )
        where.setdefault(key, set()).add(value)
    os.environ["OMP_NUM_THREADS"] = "1"
    import_plugins()
    import_module_and_submodules("elmo_plugin")
    if not arguments.data.is_dir():
        raise InputError(f"--data: {arguments.data}: expected a folder, found none")
    grid = read_grid(arguments.grid)
    runner = GridRunner(grid, arguments.rows, arguments.data, arguments.work)
    cells = runner.left(where)
    if arguments.dry_run:
        costs = runner.costs(cells)
        for cell, cost in zip(cells, costs):
            print(f"{cell.table}\t{cell.name}\t{cost:.0f} s")
        print(f"{len(cells)} runs, {sum(costs) / 3600:.1f} core-hours")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the runs too
    sys.exit(min(runner.run(cells, arguments.jobs), 1))


if __name__ == "__main__":
    run_command("grid", main)
