import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text.lines import read_blocks, read_lines, read_sentences
from tests.conftest import ROOT, write_file

CONLL_2003 = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\ncalls NNS B-NP O\n. . O O\n"
CONLL_U = "# text = It runs\n1\tIt\tit\tPRON\n2\truns\trun\tVERB\n3\t.\t.\tPUNCT\n\n"


TABS, TREES, TAGS = "tabs in most lines", "JSON, trees or CoNLL data", "a tag at the end of most"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("dependencies/train.conllu", TABS),
        ("tagging/train.tsv", TABS),
        ("ner/train.conll", TREES),
        ("snli/train.jsonl", TREES),
        ("squad/train.json", TREES),
        ("trees/train.mrg", TREES),
        ("(3 (2 It) (4 (3 ran) (2 .)))\n", TREES),
        ('{\n  "sentence" : "It ran ."\n}\n', TREES),
        ("It\tPRON\nruns\tVERB\n.\tPUNCT\n\n" * 2, TABS),
        ("True\tthe girl laughs\nFalse\tthe girl laugh\n" * 2, TABS),
        ("label\ttext\n\n1\tthe girl laughs\n", TABS),
        (CONLL_U, TABS),
        (CONLL_U.replace("\n", "\r\n"), TABS),
        (CONLL_2003, TAGS),
    ],
)
def test_the_data_of_a_task_is_not_text(tmp_path: Path, content: str, found: str) -> None:
    """The files of `fixtures` and the others are data of tasks. As a text, they would have tags and
    numbers for words. An open file has the name that is given."""
    if "\n" not in content:
        content = (ROOT / "fixtures" / content).read_text()
    for name, compress in (("plain", bytes), ("packed", gzip.compress)):
        with pytest.raises(InputError, match=rf"{name}: expected text, .*{found}.* task://CONFIG#"):
            list(read_sentences(write_file(tmp_path / name, compress(content.encode()))))
    with pytest.raises(InputError, match=f"^stdin: expected text, .* {found}"):
        list(read_blocks(io.BytesIO(content.encode()), name="stdin"))


@pytest.mark.parametrize(
    "content",
    [
        "He\tran\t.\n",  # one line proves nothing, nor do two with other numbers of tabs
        "A\tdog\tran\t.\nIt\tran\t.\n",
        "Two\twords\nAnd none\nIt\tran\n",
        "One\ttwo\nA line .\nAnother\tone\nThe last .\n" * 100,  # half of the lines
        "\tAn indented line .\n" * 100,
        "Blood type O\nVitamin B-12 , not A-1\nIt ran .\n" * 100,
        "He saw the U-boat\nShe sent an E-mail\nIhre E-Mail\nDie U-Bahn\n",
        '{ " It ran . " }\n{ a : " b " }\n',
        '{ "a" , "b" } is a set\n[ { " It " ] :\n',
        "( I ( we ) ran )\n( 2 ) and (3 (or 4 ) )\n(A) (B)\n",
        "x " * 128 + "\nustarr\n",  # where tar archives have these letters, and zeros or spaces
        "A dog .\r\n\r\n",
        "A\rdog .\n",
    ],
)
def test_text_with_tabs_and_capitals_stays_text(tmp_path: Path, content: str) -> None:
    """By the definition of a text, tabs are whitespace, and so are a CR beside a line feed and a
    rare one. The tokens are those of `str.split`."""
    found = list(read_sentences(write_file(tmp_path / "text", content)))
    assert found == [line.split() for line in content.split("\n") if line.split()]


@pytest.mark.parametrize("name", ["stimuli.csv", "A.TSV", "stimuli.csv.gz", "stimuli.tsv.xz"])
def test_a_table_is_not_text(tmp_path: Path, name: str) -> None:
    """By its name, because a line with commas is a sentence too. The header and the other columns
    would be words."""
    compress = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    table = write_file(tmp_path / name, compress(b"item,sentence\n1,The dogs bark .\n"))
    with pytest.raises(InputError, match=rf"{name}: expected text, .* the name of a table; "):
        list(read_sentences(tmp_path))
    assert list(read_lines(table, is_text=False))[1] == "1,The dogs bark ."
    for other in ("csv", "a.csv.txt", "a.tsv.old"):
        file = write_file(tmp_path / other, "He , it .\n")
        assert list(read_sentences(file)) == [["He", ",", "it", "."]]


def test_an_archive_is_not_text(tmp_path: Path) -> None:
    """The files come from the standard library: a tar archive of one text file, plain, compressed,
    or with a name of several bytes a character; a zip archive; and a file of bzip2."""

    def check(name: str, found: str) -> None:
        with pytest.raises(InputError, match=rf"{name}: expected text, .*found .*{found}"):
            list(read_sentences(tmp_path / name))

    write_file(tmp_path / "text", "One sentence .\n")
    for mode, name in (("w", "text"), ("w:gz", "text"), ("w", "тест")):
        with tarfile.open(tmp_path / "texts.tar", mode, format=tarfile.GNU_FORMAT) as archive:
            archive.add(tmp_path / "text", name)
        check("texts.tar", "a tar archive")
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as zipped:
        zipped.write(tmp_path / "text", "text")
    check("texts.zip", "a zip archive")
    write_file(tmp_path / "text.bz2", bz2.compress(b"One sentence .\n"))
    check("text.bz2", "bzip2")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("text", ["a b\n", "Привет .\n"])
def test_utf_16_without_a_byte_order_mark(tmp_path: Path, encoding: str, text: str) -> None:
    """These bytes are valid UTF-8 too, with a NUL beside each Latin letter and line feed."""
    (tmp_path / "text").write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=r"text: expected text in UTF-8, found NUL bytes"):
        list(read_sentences(tmp_path / "text"))


@pytest.mark.parametrize(
    "text", ["A dog .\rIt ran .\r", "A dog .\rIt ran .", "A dog .\rIt ran .\rAway .\n"]
)
def test_lines_that_end_in_cr_only(tmp_path: Path, text: str) -> None:
    """They would be one sentence, but one CR at the end."""
    with pytest.raises(InputError, match=r"text: expected lines that end in LF, found CR as on"):
        list(read_sentences(write_file(tmp_path / "text", text)))
    assert list(read_sentences(write_file(tmp_path / "text", "A dog .\r"))) == [["A", "dog", "."]]
