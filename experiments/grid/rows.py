"""The rows of finished runs, in JSON Lines."""

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_rows(files: Iterable[Path]) -> list[Row]:
    """
    # Raises

    `ValueError`
        If a line is not a JSON object. The message names the file and the line.
    """
    rows = []
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise ValueError(f"{file}: line {number}: expected a JSON object, found {line!r}")
            rows.append(row)
    return rows


def append_row(file: Path, row: Row) -> None:
    """Adds a whole line or nothing, while no other process writes."""
    line = (json.dumps(row, sort_keys=True) + "\n").encode("utf-8")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as rows:
        fcntl.flock(rows, fcntl.LOCK_EX)
        end = rows.seek(0, 2)
        try:
            if rows.write(line) != len(line):
                raise OSError(f"{file}: could not be written whole, the disk may be full")
        except OSError:
            rows.truncate(end)
            raise
