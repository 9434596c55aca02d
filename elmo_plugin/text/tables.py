"""Reads tables: CSV or TSV with a header, in plain or compressed files, as `text/lines.py`."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
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
    and one that names the line if a row does not have the fields of the header, or if one of these
    fields is blank.
    """
    # The limit, 131,072 characters by default, belongs to the process, so it is only raised.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    lines = (f"{line}\n" for line in read_lines(file, name, is_text=False))
    first = next(lines, "\n")
    is_tsv = ".tsv" in Path(name).name.lower() and "," not in first
    delimiter = "\t" if "\t" in first or is_tsv else ","
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        header = next(reader)
        wanted = [*columns, *filter(header.count, optional)]
        for column in wanted:
            if header.count(column) != 1:
                fail(name, f"a table with one column {column}", header)
        for row in filter(None, reader):
            line = f"{name}, line {reader.line_num}"
            if len(row) != len(header):
                fail(line, f"{len(header)} fields, as in the header", row)
            values = [row[header.index(column)] for column in wanted]
            if blank := [x for x, value in zip(wanted, values) if not value.strip()]:
                fail(line, f"a value in the column {blank[0]}", "")
            yield line, *values
    except csv.Error as error:
        fail(f"{name}, line {reader.line_num}", "quotes as in CSV", str(error))
