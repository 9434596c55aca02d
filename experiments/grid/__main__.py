import argparse
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
from typing import Any, NamedTuple

from allennlp.common.plugins import import_plugins
from allennlp.common.util import import_module_and_submodules

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest
from experiments import grid as package
from experiments.grid.bilms import Bilm, find_bilms
from experiments.grid.cells import SETTINGS, Cell, Grid, read_grid
from experiments.grid.costs import Costs
from experiments.grid.training import LOG, RESULT, train
from experiments.rows import ORIGIN, RESULTS, Row, append_row, read_rows


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
        self.bilms = find_bilms(grid.bilms, self.work)
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

    def costs(self) -> Costs:
        return Costs(self.grid, self._rows())

    def run(self, cells: Sequence[Cell], jobs: int = 1, budget: float = float("inf")) -> int:
        """
        Train cells in `jobs` processes. Cells expected to exceed the `budget` in core-hours are not
        started. Returns the number of failed runs, whose folders are kept.

        # Raises

        `InputError`
            If the first result of a task has no such metric.
        """
        waiting, running = list(cells), dict[int, Run]()
        spent, failed = 0.0, 0
        try:
            while waiting or running:
                costs = self.costs()
                while waiting and len(running) < jobs:
                    expected = spent + sum(costs(run.cell) for run in running.values())
                    if expected + costs(waiting[0]) > 3600 * budget:
                        print(f"budget: {len(waiting)} runs are left", flush=True)
                        waiting.clear()
                        break
                    run = self._start(waiting.pop(0))
                    running[run.process.sentinel] = run
                for sentinel in wait(list(running)) if running else []:
                    run = running.pop(sentinel)  # type: ignore[arg-type]
                    row = self._finish(run)
                    failed += row is None
                    spent += row["cpu_seconds"] if row else costs(run.cell)
        finally:
            for run in running.values():
                run.process.kill()
                run.process.join()
                if not _continues():
                    shutil.rmtree(run.out)
        return failed

    def _rows(self) -> list[Row]:
        return read_rows(self.rows_file)

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
            target=train, args=(cell.config_in(self.folders), out), daemon=True
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
        task = run.cell.settings["task"]
        metric = self.grid.tasks[task]["metric"]
        if metric not in row["metrics"]:
            # The row is kept, and is found again when the grid names one of its metrics.
            raise InputError(
                f"tasks: {task}: metric: expected one of {', '.join(row['metrics'])}, found "
                f"{metric!r}"
            )
        print(f"{metric} {row['metrics'][metric]:.4f}, {row['cpu_seconds']:.0f} s", flush=True)
        return row


def _continues() -> bool:
    """Whether killed runs continue: not if the code has changed since its commit."""
    return not str(ORIGIN["commit"]).endswith("-dirty")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.grid",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("grid", type=Path, help="jsonnet file")
    parser.add_argument("--rows", type=Path, default=RESULTS / "rows.jsonl")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    parser.add_argument(
        "--where", nargs="+", default=[], metavar="KEY=VALUE", help="only cells like these"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="core-hours to spend")
    parser.add_argument("--dry-run", action="store_true", help="list the cells that are left")
    arguments = parser.parse_args()
    where: dict[str, set[str]] = {}
    for condition in arguments.where:
        key, _, value = condition.partition("=")
        if key not in (*SETTINGS, "table") or not value:
            keys = ", ".join((*SETTINGS, "table"))
            parser.error(f"--where: expected KEY=VALUE with one of {keys}; found {condition!r}")
        where.setdefault(key, set()).add(value)
    os.environ["OMP_NUM_THREADS"] = "1"
    import_plugins()
    import_module_and_submodules("elmo_plugin")
    try:
        if not arguments.data.is_dir():
            raise InputError(f"--data: {arguments.data}: expected a folder, found none")
        grid = read_grid(arguments.grid)
        runner = GridRunner(grid, arguments.rows, arguments.data, arguments.work)
        cells = runner.left(where)
    except (ValueError, OSError) as error:
        sys.exit(f"python -m experiments.grid: {error}")
    if arguments.dry_run:
        costs = runner.costs()
        for cell in cells:
            print(f"{cell.table}\t{cell.name}\t{costs(cell):.0f} s")
        print(f"{len(cells)} runs, {sum(map(costs, cells)) / 3600:.1f} core-hours")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the runs too
    try:
        sys.exit(min(runner.run(cells, arguments.jobs, arguments.budget), 1))
    except InputError as error:
        sys.exit(f"python -m experiments.grid: {error}")


if __name__ == "__main__":
    main()
