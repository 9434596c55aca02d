"""
Tables as text, and the names that HDF5 can have in a file of vectors. tests/commands/test_elmo.py
and tests/corpora/test_uses.py have the numbers in the other kinds of files.
"""

import json
import math
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.corpora.writers import LineVectors, TextTable


def test_tables_as_text() -> None:
    """By hand: numbers have six places, and missing ones are empty in CSV and null in JSON. Base R
    reads TRUE as a logical value."""
    table = {"n": [1, 2], "word": ['a,"', "\u00e9"], "known": [True, False], "x": [1 / 3, math.nan]}
    writer = TextTable("csv", list(table))
    assert writer.header == "n,word,known,x\n"
    assert writer.text(table) == '1,"a,""",TRUE,0.333333\n2,\u00e9,FALSE,\n'
    assert writer.text({name: [] for name in table}) == ""
    # A line break within a value is quoted, also the old one of Macs, as readers of CSV expect.
    assert TextTable("csv", ["x", "y"]).text({"x": ["a\rb"], "y": ["c\nd"]}) == '"a\rb","c\nd"\n'
    writer = TextTable("jsonl", list(table))
    assert writer.header == ""
    lines = writer.text(table | {"xs": [np.array([2 / 3, math.nan]), []]}).splitlines()
    assert list(map(json.loads, lines)) == [
        {"n": 1, "word": 'a,"', "known": True, "x": 0.333333, "xs": [0.666667, None]},
        {"n": 2, "word": "\u00e9", "known": False, "x": None, "xs": []},
    ]


def write(folder: Path, texts: list[str]) -> Path:
    """The vector of line n is (n, n)."""
    writer = LineVectors({text: n for n, text in enumerate(texts)}, has_sentence_keys=True)
    writer.write([{n: np.full(2, n)} for n in range(len(texts))], folder / "part")
    writer.join([folder / "part"], folder / "joined", folder / "out", None)
    return folder / "joined"


def test_names_of_sentences(tmp_path: Path) -> None:
    """By definition: of equal sentences, the last one is written."""
    with h5py.File(write(tmp_path, ["a b", "dog", "a b", "c"])) as file:
        assert {name: file[name][0] for name in file} == {"dog": 1, "a b": 2, "c": 3}


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        (["x", "a/b", "a"], 3),
        (["a", "x", "a/b"], 3),
        (["a//b", "a/./b"], 2),
        (["a", "b/", "b"], 3),
        (["."], 1),
        (["x", "/"], 2),
        (["word\0s"], 1),
    ],
)
def test_names_that_hdf5_cannot_have(tmp_path: Path, texts: list[str], refused: int) -> None:
    """By the rules of paths: a slash separates groups and a dot is the group itself; HDF5 would cut
    the last name at its NUL. The error names the line."""
    message = re.escape(f"{tmp_path}/out: line {refused}: {texts[refused - 1]!r}: HDF5 cannot")
    with pytest.raises(InputError, match=f"^{message}"):
        write(tmp_path, texts)
