"""
The kinds of files in which results are written. A result is a table, whose columns have names; the
vectors of lines, in the layout of AllenNLP 0.9; or the vectors of sentences as rows of a matrix.
"""

import csv
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import h5py
import numpy as np

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import append_checksum
from elmo_plugin.files.hdf5 import HDF5Bytes, open_hdf5

Table = dict[str, list[Any]]
"""Columns of equal length, by name."""

COMPUTED_WITH = "computed_with"
"""The attribute of an HDF5 file that says which parts were rounded in which way."""

PLACES = 6
"""Decimal places of numbers in text."""

ROWS = 1024
"""Number of rows in a chunk of a column."""


class Writer(Protocol):
    """A kind of file, which is joined from parts of the same results."""

    def write(self, results: Iterable[Any], path: Path) -> None:
        """Write a part with the results of some batches."""

    def join(self, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None) -> None:
        """
        Write the file that will be called `out` to `path` from all parts, and record what they were
        `computed_with`: JSON, or `None` if it was the same for all parts.
        """


class TextTable:
    """Tables as lines of CSV, with a header, or of JSON (`jsonl`)."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self._is_csv = kind == "csv"
        self.header = self._lines([names]) if self._is_csv else ""

    def text(self, table: Mapping[str, Iterable[Any]]) -> str:
        """The lines of the table's rows."""
        rows = zip(*(map(_written, column) for column in table.values()))
        if self._is_csv:
            return self._lines(rows)
        return "".join(json.dumps(dict(zip(table, row)), ensure_ascii=False) + "\n" for row in rows)

    def _lines(self, rows: Iterable[Iterable[Any]]) -> str:
        lines: list[str] = []
        # Base R reads TRUE as a logical value, and Python's True as text.
        rows = ([str(x).upper() if isinstance(x, bool) else x for x in row] for row in rows)
        # Before Python 3.13, \r and \n in a value are quoted only if they end a line.
        csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
        return "".join(line.removesuffix("\r\n") + "\n" for line in lines)

    def write(self, results: Iterable[Any], path: Path) -> None:
        with path.open("wb") as file:
            file.writelines(encoded(self.text(table)) for table in results)

    def join(self, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None) -> None:
        _join_bytes(self.header.encode(), parts, path, out, computed_with)


def _written(value: Any) -> Any:
    """A value of a table as it is written: missing numbers are empty in CSV, and null in JSON."""
    if isinstance(value, list | np.ndarray):
        return list(map(_written, value.tolist() if isinstance(value, np.ndarray) else value))
    if not isinstance(value, float):
        return value
    return None if value != value else round(value, PLACES)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # lone surrogates, which UTF-8 cannot hold


class Matrix:
    """
    The vectors of lines as the rows of an array in NumPy's format, in the order of the lines, by
    whose numbers they are given. `shape`, `dtype`: those of a row.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self._row = np.empty(shape, dtype)

    def write(self, results: Iterable[dict[int, np.ndarray]], path: Path) -> None:
        rows = {line: vector for batch in results for line, vector in batch.items()}
        path.write_bytes(np.stack([rows[line] for line in sorted(rows)]).data)

    def join(self, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None) -> None:
        files, row = list(parts), self._row
        n = sum(file.stat().st_size for file in files) // row.nbytes
        facts = np.lib.format.header_data_from_array_1_0(row) | {"shape": (n, *row.shape)}
        np.lib.format.write_array_header_1_0(header := io.BytesIO(), facts)
        # Not a memory map: if the disk is full, writing to one kills the process.
        _join_bytes(header.getvalue(), files, path, out, computed_with)


def _join_bytes(
    header: bytes, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None
) -> None:
    """
    Write a header and the parts, one after the other. Such a file has no place for what it was
    computed with, which is recorded in a file next to `out`.
    """
    with path.open("wb") as joined:
        joined.write(header)
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined)
    record = Path(f"{out}.{COMPUTED_WITH}.json")
    record.unlink(missing_ok=True)  # of an earlier file of this name
    if computed_with is not None:
        with atomic_write(record) as temporary:
            temporary.write_text(computed_with + "\n", "utf-8")


@contextmanager
def _new_hdf5(path: Path, computed_with: str | None = None) -> Iterator[tuple[h5py.File, Any]]:
    """A new file, and a function that raises the error of a write that failed."""
    with HDF5Bytes(path) as disk, h5py.File(disk, "w") as file:
        if computed_with is not None:
            file.attrs[COMPUTED_WITH] = computed_with
        yield file, disk.check


class Columns:
    """
    Tables as an HDF5 file with an array for each column and a checksum at its end. `types`: the
    type of each column, which may have a shape. `attributes`: those of the file.
    """

    def __init__(self, types: dict[str, np.dtype], attributes: dict[str, Any]) -> None:
        self._types = types
        self._attributes = attributes

    def write(self, results: Iterable[dict[str, Any]], path: Path) -> None:
        with _new_hdf5(path) as (file, check):
            self._append(results, file, check)

    def join(self, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None) -> None:
        with _new_hdf5(path, computed_with) as (file, check):
            file.attrs.update(self._attributes)
            self._append(self._read(parts), file, check)
        append_checksum(path)

    def _append(self, tables: Iterable[dict[str, Any]], file: h5py.File, check: Any) -> None:
        for name, dtype in self._types.items():
            limits = {"maxshape": (None, *dtype.shape), "chunks": (ROWS, *dtype.shape)}
            file.create_dataset(name, (0, *dtype.shape), dtype.base, **limits)
        for table in tables:
            for name, values in table.items():
                n_rows = len(file[name])
                file[name].resize(n_rows + len(values), axis=0)
                file[name][n_rows:] = np.asarray(values, dtype=self._types[name].base)
            check()

    def _read(self, parts: Iterable[Path]) -> Iterator[dict[str, Any]]:
        *_, last = self._types
        for path in parts:
            with open_hdf5(path) as part:
                for start in range(0, len(part[last]), ROWS):
                    yield {name: part[name][start : start + ROWS] for name in self._types}


class LineVectors:
    """
    The vectors of lines in the layout of AllenNLP 0.9: each line has a dataset named by its number,
    and `sentence_to_index` is a JSON object that maps sentences to these names. `index`: the number
    of the last line of each sentence, which is read at the end; without it there is no such object.
    `has_sentence_keys`: datasets are named by sentences, and of equal ones the last is written.
    """

    def __init__(self, index: dict[str, int] | None, has_sentence_keys: bool) -> None:
        self._index = index
        self._has_sentence_keys = has_sentence_keys

    def write(self, results: Iterable[dict[int, np.ndarray]], path: Path) -> None:
        with _new_hdf5(path) as (file, check):
            for batch in results:
                for line, vectors in batch.items():
                    file.create_dataset(str(line), data=vectors)
                check()

    def join(self, parts: Iterable[Path], path: Path, out: Path, computed_with: str | None) -> None:
        index = self._index or {}
        names = {line: text for text, line in index.items()} if self._has_sentence_keys else None
        with _new_hdf5(path, computed_with) as (joined, check):
            for file in parts:
                with open_hdf5(file) as part:
                    for line in sorted(map(int, part)):
                        name = str(line) if names is None else names.get(line)
                        if name is not None:  # otherwise an equal sentence follows
                            _copy(part, line, joined, name, out)
                check()
            if self._index is not None and names is None:
                string = h5py.special_dtype(vlen=str)
                joined.create_dataset("sentence_to_index", (1,), dtype=string)
                lines = {text: str(line) for text, line in index.items()}
                joined["sentence_to_index"][0] = json.dumps(lines)


def _copy(part: h5py.File, line: int, joined: h5py.File, name: str, out: Path) -> None:
    try:
        if "\0" in name:  # HDF5 would truncate the name there
            raise ValueError
        part.copy(str(line), joined, name=name)
    except (RuntimeError, ValueError):
        raise InputError(
            f"{out}: line {line + 1}: {name!r}: HDF5 cannot have a dataset of this name, or not "
            "next to those of other lines, because a slash separates groups; leave out "
            "--use-sentence-keys, and nothing is computed again"
        ) from None
