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


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (ROOT / "fixtures/dependencies/train.conllu", "tabs in most lines"),
        (ROOT / "fixtures/semantic_dependencies/train.sdp", "tabs in most lines"),
        (ROOT / "fixtures/tagging/train.tsv", "tabs in most lines"),
        (ROOT / "fixtures/ner/train.conll", "JSON, trees or CoNLL data"),
        (ROOT / "fixtures/coref/train.gold_conll", "JSON, trees or CoNLL data"),
        (ROOT / "fixtures/snli/train.jsonl", "JSON, trees or CoNLL data"),
        (ROOT / "fixtures/squad/train.json", "JSON, trees or CoNLL data"),
        (ROOT / "fixtures/trees/train.mrg", "JSON, trees or CoNLL data"),
        ("(3 (2 It) (4 (3 ran) (2 .)))\n", "JSON, trees or CoNLL data"),
        ("It\tPRON\nruns\tVERB\n.\tPUNCT\n\n" * 2, "tabs in most lines"),
        ("True\tthe girl laughs\nFalse\tthe girl laugh\n" * 2, "tabs in most lines"),
        ("label\ttext\n\n1\tthe girl laughs\n", "tabs in most lines"),
        (CONLL_U, "tabs in most lines"),
        (CONLL_U.replace("\n", "\r\n"), "tabs in most lines"),
        (CONLL_2003, "a tag at the end of most lines"),
        ("Paris NNP I-person\nis VBZ O\nold JJ O\n. . O\n", "a tag at the end of most lines"),
        ('{\n  "sentence" : "It ran ."\n}\n', "JSON, trees or CoNLL data"),
        ('[\n {"sentence": "It ran ."}\n]\n', "JSON, trees or CoNLL data"),
    ],
)
def test_the_data_of_a_task_is_not_text(tmp_path: Path, content: Path | str, found: str) -> None:
    """The files are data of tasks, the first three with tabs. As a text, they would have tags and
    numbers for words."""
    data = content.read_text() if isinstance(content, Path) else content
    for name, compress in (("plain", bytes), ("packed", gzip.compress)):
        with pytest.raises(InputError, match=rf"{name}: expected text, .*{found}.* task://CONFIG#"):
            list(read_sentences(write_file(tmp_path / name, compress(data.encode()))))


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
    ],
)
def test_text_with_tabs_and_capitals_stays_text(tmp_path: Path, content: str) -> None:
    """By the definition of a text, tabs are whitespace. The tokens are those of `str.split`."""
    found = list(read_sentences(write_file(tmp_path / "text", content)))
    assert found == [line.split() for line in content.split("\n")[:-1]]


@pytest.mark.parametrize("name", ["stimuli.csv", "A.TSV", "stimuli.csv.gz", "stimuli.tsv.xz"])
def test_a_table_is_not_text(tmp_path: Path, name: str) -> None:
    """By its name, because a line with commas is a sentence too. The header and the other columns
    would be words."""
    compress = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    table = write_file(tmp_path / name, compress(b"item,sentence\n1,The dogs bark .\n"))
    with pytest.raises(
        InputError, match=rf"{name}: expected text, .* the name of a table; .*colum"
    ):
        list(read_sentences(tmp_path))
    assert list(read_lines(table, is_text=False))[1] == "1,The dogs bark ."
    for other in ("csv", "a.csv.txt", "a.tsv.old"):
        file = write_file(tmp_path / other, "He , it .\n")
        assert list(read_sentences(file)) == [["He", ",", "it", "."]]


@pytest.mark.parametrize("content", [CONLL_U, "1\tIt ran .\n2\tIt ran .\n"])
def test_the_data_of_a_task_on_stdin(content: str) -> None:
    """An open file has the name that is given."""
    with pytest.raises(InputError, match=r"^stdin: expected text, .* tabs in most lines"):
        list(read_blocks(io.BytesIO(content.encode()), name="stdin"))


def test_an_archive_is_not_text(tmp_path: Path) -> None:
    """The files come from the standard library: a tar archive of one text file, plain, compressed,
    or with a name of several bytes a character; a zip archive; and a file of bzip2."""
    write_file(tmp_path / "text", "One sentence .\n")
    for mode, name in (("w", "text"), ("w:gz", "text"), ("w", "тест")):
        with tarfile.open(tmp_path / "texts.tar", mode, format=tarfile.GNU_FORMAT) as archive:
            archive.add(tmp_path / "text", name)
        with pytest.raises(InputError, match=r"texts\.tar: .* found a tar archive"):
            list(read_sentences(tmp_path / "texts.tar"))
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as zipped:
        zipped.write(tmp_path / "text", "text")
    with pytest.raises(InputError, match=r"texts\.zip: .* found a zip archive"):
        list(read_sentences(tmp_path / "texts.zip"))
    (tmp_path / "text.bz2").write_bytes(bz2.compress(b"One sentence .\n"))
    with pytest.raises(InputError, match=r"text\.bz2: expected text, .* found .* by bzip2"):
        list(read_sentences(tmp_path / "text.bz2"))


def test_a_text_that_looks_like_a_tar_archive(tmp_path: Path) -> None:
    """At this place, tar archives have the same five letters, and zeros or spaces behind them."""
    text = "x " * 128 + "\nustarr\n"
    assert text.index("ustar") == 257
    assert list(read_sentences(write_file(tmp_path / "text", text)))[1] == ["ustarr"]


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
    """They would be one sentence. A CR beside a line feed, or a rare one, is whitespace."""
    with pytest.raises(InputError, match=r"text: expected lines that end in LF, found CR as on"):
        list(read_sentences(write_file(tmp_path / "text", text)))
    for one in ("A dog .\r", "A\rdog .\n", "A dog .\r\n", "A dog .\r\n\r\n"):
        assert list(read_sentences(write_file(tmp_path / "text", one))) == [["A", "dog", "."]]
