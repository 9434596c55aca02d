"""The tables of the analyses, from the rows that their commands saved."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import neighbors, probe, wic, wsd
from experiments.rows import Row, known_rows

TABLES = {
    "Table 4: nearest neighbors in context": (neighbors.FILE, neighbors.neighbors_table),
    "Table 5: word sense disambiguation (WSD)": (wsd.FILE, wsd.wsd_table),
    "Table 6: POS tagging": (probe.FILE, probe.rows_table),
    "Table 7: word in context (WiC)": (wic.FILE, wic.wic_table),
}

SHOWN = {"layer", "initial_state", "query", "dev", "nearest", "classifier"}
"""The settings that a table shows. Its rows have all others in common."""


def analysis_sections(folder: Path) -> dict[str, str]:
    """
    The tables by the title of their section, for each analysis that has rows in the folder.

    # Raises

    `ValueError`
        If one name stands for two biLMs, or if rows differ in a setting that the tables do not
        show. The message names the file.
    """
    sections = {}
    for title, (file, table) in TABLES.items():
        rows = known_rows(folder / file.name)
        if rows:
            _check_comparable(rows, folder / file.name)
            sections[title] = table(rows)
    return sections


def _check_comparable(rows: Sequence[Row], file: Path) -> None:
    found: defaultdict[str, set[Any]] = defaultdict(set)
    for row in rows:
        found[f"digest of {row['bilm']}"].add(row["digest"])
        for key in row["settings"].keys() - SHOWN:
            found[key].add(row["settings"][key])
    for key, values in sorted(found.items()):
        if len(values) > 1:
            raise ValueError(f"{file}: {key}: expected one in all rows, found {sorted(values)}")
