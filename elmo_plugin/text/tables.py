"""Reads tables: CSV or TSV with a header, in plain or compressed files, as `text/lines.py`."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from elmo_plugin.checks import fail
from elmo_plugin.text.lines import LINE_BYTES, read_lines


def read_table(
    file: Path | BinaryIO, name: str, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, ...]]:
    """
    What errors call each row of a table, and its fields in `columns` and in those of the `optional`
    ones that the table has. `name`: the file in errors. Fields are separated by tabs if the first
    line has one, or if it has no comma and the file is a `.tsv`; otherwise by commas. They are
    quoted as in CSV.

    Raises an `InputError` as `read_lines`, if the table does not have each of these columns once,
    and one that names a row's first line if the row does not have the fields of the header, if one
    of these fields is blank, or if its quotes do not end.
    """
    # The limit, 131,072 characters by default, belongs to the process, so it is only raised.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    lines = (f"{line}\n" for line in read_lines(file, name, is_text=False))
    first = next(lines, "\n")
    is_tsv = ".tsv" in Path(name).name.lower() and "," not in first
    delimiter = "\t" if "\t" in first or is_tsv else ","
    rows = _rows(chain([first], lines), name, delimiter)
    header = next(rows)[1]
    wanted = [*columns, *filter(header.count, optional)]
    for column in wanted:
        if header.count(column) != 1:
            fail(name, f"a table with one column {column}", header)
    for line, row in filter(itemgetter(1), rows):
        if len(row) != len(header):
            fail(line, f"{len(header)} fields, as in the header", row)
        values = [row[header.index(column)] for column in wanted]
        if blank := [x for x, value in zip(wanted, values) if not value.strip()]:
            fail(line, f"a value in the column {blank[0]}", "")
        yield line, *values


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """What errors call each row, by its first line, and its fields."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = f"{name}, line {reader.line_num + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            fail(line, "quotes as in CSV", str(error))
        if row is None:
            return
        yield line, row
