"""The tables of the analyses, from the rows that their commands saved."""

from pathlib import Path

from experiments import documents, neighbours, probe, wsd
from experiments.rows import read_rows

TABLES = {
    "Table 4: nearest neighbours in context": (neighbours.FILE, [neighbours.neighbours_table]),
    "Table 5: word senses": (wsd.FILE, [wsd.wsd_table]),
    "Table 6: parts of speech": (probe.FILE, [probe.rows_table]),
    "Documents as one sentence": (
        documents.FILE,
        [documents.documents_table, documents.cosines_table, documents.accuracy_table],
    ),
}


def analysis_sections(folder: Path) -> dict[str, str]:
    """The tables by the title of their section, for each analysis that has rows in the folder."""
    sections = {}
    for title, (file, tables) in TABLES.items():
        rows = read_rows(folder / file.name)
        if rows:
            sections[title] = "\n\n".join(table(rows) for table in tables)
    return sections
