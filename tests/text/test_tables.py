"""Tables, whose expected fields are those that Python's `csv` wrote."""

import csv
import gzip
import io
import lzma
from pathlib import Path
from random import Random

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text.tables import read_table
from tests.conftest import write_file


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_fields_are_those_that_were_written(tmp_path, delimiter, end, compress):
    """`csv` writes random fields with quotes, delimiters and line breaks, after a byte order mark.
    A blank line is no row, and a column that is missing is left out if it is optional."""
    random = Random(0)
    some = ["a", ",", "\t", '"', "\n", " ", "é", "b c"]
    rows = [["x" + "".join(random.choices(some, k=5)) for _ in range(4)] for _ in range(50)]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerows([["n", "word", "sentence", "n"], *rows[:20], [], *rows[20:]])
    data = compress(("\ufeff" + text.getvalue()).encode())
    file = write_file(tmp_path / "table", data)
    found = [row[1:] for row in read_table(file, "t", ["sentence", "word"], ["gone"])]
    assert found == [(row[2], row[1]) for row in rows]
    with_optional = [row[1:] for row in read_table(file, "t", ["sentence"], ["gone", "word"])]
    assert with_optional == found


@pytest.mark.parametrize("name", ["t.tsv", "a.csv/t.TSV.gz"])
def test_one_column_of_a_tsv(tmp_path: Path, name: str) -> None:
    """By definition: there is no tab in the header, and a comma does not separate fields."""
    file = write_file(tmp_path / "table", "sentence\nYes , it ran .\n")
    assert list(read_table(file, name, ["sentence"])) == [(f"{name}, line 2", "Yes , it ran .")]
    file = write_file(tmp_path / "table", "n,sentence\n1,It ran .\n")
    assert list(read_table(file, name, ["sentence"])) == [(f"{name}, line 2", "It ran .")]


@pytest.mark.parametrize("n", [131_073, 1_000_000])
def test_a_long_field(tmp_path: Path, n: int) -> None:
    """Python's own limit is 131,072 characters, and a sentence may have more."""
    file = write_file(tmp_path / "table", f"sentence,n\n{'a' * n},1\n")
    assert list(read_table(file, "t", ["sentence"])) == [("t, line 2", "a" * n)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", r": expected a table with one column sentence, found \['a', 'b'\]$"),
        ("", r": .* one column sentence, found \[\]$"),
        ("sentence;a\nx;1\n", r": .* one column sentence, found \['sentence;a'\]$"),
        ("sentence,a,sentence\nx,1,y\n", ": .* one column sentence"),
        ("sentence,a,a\nx,1,2\n", ": .* one column a"),
        ("sentence,a\nx,1\ny\n", r", line 3: expected 2 fields, .* found \['y'\]$"),
        ('sentence,a\n"x\ny",1\n"z\nz",1,2\n', ", line 4: expected 2 fields"),
        ("sentence,a\nx,\n", ", line 2: expected a value in the column a, found ''$"),
        ("sentence,a\n \t,1\n", ", line 2: expected a value in the column sentence"),
        ('sentence,a\n"x,1\ny,1\n', ", line 2: expected quotes as in CSV"),
        ('sentence,a\n"x"y,1\n', ", line 2: expected quotes as in CSV"),
    ],
)
def test_wrong_tables(tmp_path: Path, content: str, message: str) -> None:
    """By definition: an error names the file, and the column or the line."""
    with pytest.raises(InputError, match=f"^t{message}"):
        list(read_table(write_file(tmp_path / "table", content), "t", ["sentence"], ["a"]))
