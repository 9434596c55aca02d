"""
Results in JSON Lines, one row per result. A row of an analysis has the biLM's name (`bilm`) and
`digest`, the `settings`, the `metrics`, the CPU time in `seconds`, and its `ORIGIN`.
"""

import fcntl
import json
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import elmo_plugin.plugin  # noqa: F401  registers pretrained:// and docs://
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import new_digest
from elmo_plugin.version import VERSION

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
AVERAGE = "average"

Row = dict[str, Any]


def _origin() -> Row:
    """
    The `version` and `commit` of the code, and the `processor`. The commit is marked as `-dirty` if
    the code was changed, and `None` outside a clone.
    """
    arguments = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    return {
        "version": VERSION,
        "commit": done.stdout.strip() if done.returncode == 0 else None,
        "processor": found[1] if found else platform.processor(),
    }


ORIGIN = _origin()
"""That of the code that is running, which may change on the disk meanwhile."""


def read_rows(file: Path) -> list[Row]:
    """
    The rows of a file.

    # Raises

    `ValueError`
        If a line is not a JSON object. The message names the file and the line.
    """
    rows = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{file}: line {number}: expected a JSON object, found {line!r}")
        rows.append(row)
    return rows


def known_rows(file: Path) -> list[Row]:
    """`read_rows` of a file that does not exist before the first result; then none."""
    return read_rows(file) if file.exists() else []


def append_row(file: Path, row: Row) -> None:
    """Append a complete line or nothing, while holding a lock."""
    line = (json.dumps(row, sort_keys=True) + "\n").encode("utf-8")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as rows:
        fcntl.flock(rows, fcntl.LOCK_EX)
        end = rows.seek(0, 2)
        try:
            if rows.write(line) != len(line):
                raise OSError(f"{file}: could not be written completely, the disk may be full")
        except OSError:
            rows.truncate(end)
            raise


def save_rows(file: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file, replacing those of the same biLM and settings."""
    new = [_key(row) for row in rows]
    kept = [row for row in known_rows(file) if _key(row) not in new]
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as temporary:
        temporary.write_text("".join(json.dumps(row) + "\n" for row in (*kept, *rows)))


def _key(row: Row) -> Any:
    return row["bilm"], row["settings"]


def result_row(name: str | None, elmo: Any, settings: Row, metrics: Row, started: float) -> Row:
    """
    A row; a baseline has no biLM, and a transformer has a digest of its own. `started` is the CPU
    time at which its work began.
    """
    return {
        "bilm": name,
        "digest": bilm_digest(elmo) if isinstance(elmo, BiLMLayers) else elmo and elmo.digest,
        "settings": settings,
        "metrics": metrics,
        "seconds": round(time.process_time() - started, 1),
        **ORIGIN,
    }


def named_archive(model: str) -> tuple[str, str]:
    """
    The name and the archive in an argument `NAME=ARCHIVE`.

    # Raises

    `ValueError`
        If the argument has another form.
    """
    name, is_named, archive_file = model.partition("=")
    if not (name and is_named):
        raise ValueError(f"model: expected NAME=ARCHIVE, found {model!r}")
    return name, archive_file


def layer_names(n_layers: int) -> list[str]:
    """The names of the L + 1 layers and of their average."""
    return ["words", *(f"LSTM {k}" for k in range(1, n_layers)), AVERAGE]


def bilm_digest(elmo: BiLMLayers) -> str:
    """A digest of the options and weights of a biLM, independent of its file format."""
    found = new_digest(json.dumps(elmo.bilm.options.to_dict(), sort_keys=True).encode())
    for name, tensor in sorted(elmo.bilm.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
