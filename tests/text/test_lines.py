import bz2
import gzip
import io
import lzma
import random
import shutil
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_plugin.checks import InputError
from elmo_plugin.text import lines as module
from elmo_plugin.text.lines import find_files, read_blocks, read_sentences
from tests.conftest import ROOT
from tests.ordinary_user import as_ordinary_user

TEXT = "One sentence .\n\nAnother , with an é and a 👍 .\n" * 50
SENTENCES = [line.split() for line in TEXT.split("\n") if line]


def compress_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": compress_zstd,
}


def write(file: Path, content: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return file


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("name", ["named{}", "a-download"])
def test_compressed_text_reads_as_plain(tmp_path: Path, suffix: str, name: str) -> None:
    """The expected lines are those of the same text before the standard library or zstandard
    compressed it, whatever its name is."""
    file = write(tmp_path / name.format(suffix), COMPRESSIONS[suffix](TEXT.encode("utf-8")))
    assert list(read_sentences(file)) == SENTENCES


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_pieces_one_after_the_other(tmp_path: Path, suffix: str) -> None:
    """All three formats define a concatenation as the concatenation of the contents."""
    piece = COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    assert list(read_sentences(write(tmp_path / "text", piece * 3))) == SENTENCES * 3


PADDING = bytes(4)
SKIPPABLE = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"


@pytest.mark.parametrize("suffix", [".xz", ".zst"])
def test_bytes_between_compressed_pieces(tmp_path: Path, suffix: str) -> None:
    """Section 2.2 of the xz format has padding of zeros after a stream, and section 3.1.2 of the
    Zstandard format (RFC 8878) frames to be skipped, which `pzstd` writes before each frame."""
    piece = COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    data = (piece + PADDING) * 3 if suffix == ".xz" else (SKIPPABLE + piece) * 3
    assert list(read_sentences(write(tmp_path / "text", data))) == SENTENCES * 3


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_damage_to_a_later_piece_is_an_error(tmp_path: Path, suffix: str) -> None:
    """The second of two pieces begins with a wrong byte, so it is lost."""
    piece = COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    file = write(tmp_path / "text", piece + b"?" + piece[1:])
    with pytest.raises(InputError, match=r"expected a whole compressed file, found an error after"):
        list(read_sentences(file))


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_compressed_file_cut_short_is_an_error(tmp_path: Path, suffix: str) -> None:
    """Half of the bytes are not a whole file in any of the three formats."""
    data = COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    file = write(tmp_path / f"cut{suffix}", data[: len(data) // 2])
    with pytest.raises(InputError, match=rf"cut{suffix}: expected a whole compressed file"):
        list(read_sentences(file))


@pytest.mark.parametrize(
    ("suffix", "size", "most"),
    [(".gz", 1 << 26, 1 << 24), (".xz", 1 << 26, 1 << 24), (".zst", 1 << 28, 1 << 24)],
)
def test_a_line_without_end_is_an_error_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, size: int, most: int
) -> None:
    """The third line is almost the whole file. Memory holds a block and the longest line, each a
    megabyte, or as much as 128 bytes of xz or zstandard can decompress to, at most 4 MiB."""
    monkeypatch.setattr(module, "LINE_BYTES", 1 << 20)
    bomb = b"a\n" * 2 + bytes(size)
    file = write(tmp_path / f"bomb{suffix}", COMPRESSIONS[suffix](bomb))
    del bomb
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"bomb{suffix}, line 3: .* 1,048,576 bytes"):
        list(read_sentences(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.text(st.sampled_from("ab\u0301é👍 \t\n\r\u2028\x1c\xa0\0\ufeff"), max_size=80).filter(
        lambda content: (
            "\0" not in content[:4] + content.partition("\n")[0][-1:]  # as in UTF-16
            and "\n\0" not in content
            and all(line.count("\r") < 2 for line in content.split("\n"))  # as on old Macintoshes
            and "\r" not in content.split("\n")[-1].rstrip("\r")
        )
    ),
    st.integers(1, 20),
)
def test_any_text_reads_as_python_splits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, block: int
) -> None:
    """The oracle is `str.split` on each line of the whole text; a line ends with a line feed."""
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    file = write(tmp_path / "text", content)
    lines = content.removeprefix("\ufeff").split("\n")
    assert list(read_sentences(file)) == [line.split() for line in lines if line.split()]


def test_a_bad_byte_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The byte 0xff is the third of line 4, and blocks are smaller than the file."""
    monkeypatch.setattr(module, "BLOCK_BYTES", 4)
    file = write(tmp_path / "latin.txt", b"good\n\nlines\nx \xffy\nmore\n")
    with pytest.raises(InputError, match=r"latin\.txt, line 4: .* 0xff at byte 3"):
        list(read_sentences(file))


def test_an_open_file_is_read_like_one_on_the_disk() -> None:
    """The expected lines are those of the same bytes in a file. An error has the given name."""
    for compress in (bytes, gzip.compress):
        data = io.BytesIO(compress(b"\xef\xbb\xbfgood\nlines\n\xff"))
        with pytest.raises(InputError, match=r"^stdin, line 3: .* 0xff at byte 1"):
            list(read_blocks(data, name="stdin"))
    data = io.BytesIO(TEXT.encode("utf-8"))
    assert list(read_blocks(data)) == [TEXT.removesuffix("\n").split("\n")]
    assert not data.closed


CONLL_2003 = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\ncalls NNS B-NP O\n. . O O\n"
CONLL_U = "# text = It runs\n1\tIt\tit\tPRON\n2\truns\trun\tVERB\n3\t.\t.\tPUNCT\n\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (ROOT / "fixtures/dependencies/train.conllu", "tabs in most lines"),
        (ROOT / "fixtures/semantic_dependencies/train.sdp", "tabs in most lines"),
        (ROOT / "fixtures/tagging/train.tsv", "tabs in most lines"),
        (ROOT / "fixtures/ner/train.conll", "JSON or CoNLL data"),
        (ROOT / "fixtures/coref/train.gold_conll", "JSON or CoNLL data"),
        (ROOT / "fixtures/snli/train.jsonl", "JSON or CoNLL data"),
        (ROOT / "fixtures/squad/train.json", "JSON or CoNLL data"),
        ("It\tPRON\nruns\tVERB\n.\tPUNCT\n\n" * 2, "tabs in most lines"),
        (CONLL_U, "tabs in most lines"),
        (CONLL_U.replace("\n", "\r\n"), "tabs in most lines"),
        (CONLL_2003, "a tag at the end of most lines"),
    ],
)
def test_the_data_of_a_task_is_not_text(tmp_path: Path, content: Path | str, found: str) -> None:
    """The files are data of tasks, the first three with tabs. As a text, they would have tags and
    numbers for words."""
    data = content.read_text() if isinstance(content, Path) else content
    for name, compress in (("plain", bytes), ("packed", gzip.compress)):
        with pytest.raises(InputError, match=rf"{name}: expected text, .*{found}.* task://CONFIG#"):
            list(read_sentences(write(tmp_path / name, compress(data.encode()))))


@pytest.mark.parametrize(
    "content",
    [
        "He\tran\t.\n",  # one line, or two, prove nothing
        "A\tdog\tran\t.\nIt\tran\t.\n",
        "One\ttwo\nA line .\nAnother\tone\nThe last .\n" * 100,  # half of the lines
        "\tAn indented line .\n" * 100,
        "Blood type O\nVitamin B-12 , not A-1\nIt ran .\n" * 100,
    ],
)
def test_text_with_tabs_and_capitals_stays_text(tmp_path: Path, content: str) -> None:
    """By the definition of a text, tabs are white space. The tokens are those of `str.split`."""
    found = list(read_sentences(write(tmp_path / "text", content)))
    assert found == [line.split() for line in content.split("\n")[:-1]]


def test_the_data_of_a_task_on_stdin() -> None:
    """An open file has the name that is given."""
    with pytest.raises(InputError, match=r"^stdin: expected text, .* tabs in most lines"):
        list(read_blocks(io.BytesIO(CONLL_U.encode()), name="stdin"))


def test_an_archive_is_not_text(tmp_path: Path) -> None:
    """The files come from the standard library: a tar archive of one text file, plain, compressed,
    or with a name of several bytes a character; a zip archive; and a file of bzip2."""
    write(tmp_path / "text", TEXT)
    for mode, name in (("w", "text"), ("w:gz", "text"), ("w", "тест")):
        with tarfile.open(tmp_path / "texts.tar", mode, format=tarfile.GNU_FORMAT) as archive:
            archive.add(tmp_path / "text", name)
        with pytest.raises(InputError, match=r"texts\.tar: .* found a tar archive"):
            list(read_sentences(tmp_path / "texts.tar"))
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as zipped:
        zipped.write(tmp_path / "text", "text")
    with pytest.raises(InputError, match=r"texts\.zip: .* found a zip archive"):
        list(read_sentences(tmp_path / "texts.zip"))
    (tmp_path / "text.bz2").write_bytes(bz2.compress(TEXT.encode()))
    with pytest.raises(InputError, match=r"text\.bz2: expected text, .* found .* by bzip2"):
        list(read_sentences(tmp_path / "text.bz2"))


def test_a_text_that_looks_like_a_tar_archive(tmp_path: Path) -> None:
    """At this place, tar archives have the same five letters, and zeros or spaces behind them."""
    text = "x " * 128 + "\nustarr\n"
    assert text.index("ustar") == 257
    assert list(read_sentences(write(tmp_path / "text", text)))[1] == ["ustarr"]


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
    """They would be one sentence. A CR beside a line feed, or a rare one, is white space."""
    with pytest.raises(InputError, match=r"text: expected lines that end in LF, found CR as on"):
        list(read_sentences(write(tmp_path / "text", text)))
    for one in ("A dog .\r", "A\rdog .\n", "A dog .\r\n", "A dog .\r\n\r\n"):
        assert list(read_sentences(write(tmp_path / "text", one))) == [["A", "dog", "."]]


def test_files_of_a_folder_a_glob_and_an_address(tmp_path: Path) -> None:
    """The files are sorted, those of folders below are included, and hidden files are left out."""
    names = ["b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt"]
    for name in names:
        write(tmp_path / name, "x\n")

    def found(path) -> list[str]:
        return [str(file.relative_to(tmp_path)) for file in find_files(path)]

    assert found(tmp_path) == ["a.txt", "b.txt", "sub/c.txt"]
    (tmp_path / "link").symlink_to("sub")
    assert found(tmp_path) == ["a.txt", "b.txt", "link/c.txt", "sub/c.txt"]
    (tmp_path / "link").unlink()
    assert found(f"{tmp_path}/*.txt") == ["a.txt", "b.txt"]
    assert found(f"{tmp_path}/**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    assert found(f"{tmp_path}/**/**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    assert found(str(tmp_path / "b.txt")) == ["b.txt"]
    assert found(f"file://{tmp_path}/b.txt") == ["b.txt"]


@pytest.mark.parametrize("links", [{"a/up": ".."}, {"a/to_b": "../b", "b/to_a": "../a"}])
def test_folders_that_contain_themselves_are_an_error(tmp_path: Path, links: dict) -> None:
    """Following such links would read the same text some forty times, until the system stops."""
    for name in ("a/text.txt", "b/text.txt"):
        write(tmp_path / name, "x\n")
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    for path in (tmp_path, f"{tmp_path}/**/*.txt"):
        with pytest.raises(InputError, match=r"a/(up|to_b.*): expected a folder of text"):
            find_files(path)


def test_a_path_that_goes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the folder that is read, the same folder may come twice, by `..` or by a link."""
    write(tmp_path / "sub/text.txt", "x\n")
    (tmp_path / "link").symlink_to(".")
    monkeypatch.chdir(tmp_path / "sub")
    for path in ("../sub", "../sub/**/*.txt", "../../" + tmp_path.name + "/sub", "../link/sub"):
        assert [file.resolve() for file in find_files(path)] == [tmp_path / "sub/text.txt"]
    assert find_files("../link/sub/**/*.txt") == [Path("../link/sub/text.txt")]


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    """The name of an existing file is not read as a glob."""
    file = write(tmp_path / "text[1].txt", "x\n")
    assert find_files(file) == [file]


def test_a_broken_link_that_a_glob_matches(tmp_path: Path) -> None:
    """It is an error, as in a folder."""
    (tmp_path / "gone.txt").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        list(read_sentences(f"{tmp_path}/*.txt"))


def _words(path: Path) -> list[list[str]]:
    return list(read_sentences(path))


@pytest.mark.parametrize("name", ["closed", "closed/below", "a.txt", "no_entry", "dangling"])
def test_what_cannot_be_read_in_a_folder_is_named(name: str) -> None:
    """The folder has a subfolder or a file without permission, or a broken link."""
    with TemporaryDirectory() as temporary:  # other users may not enter pytest's own
        folder = Path(temporary)
        unreadable = folder / name
        write(folder / "a.txt", "a\n")
        write(folder / "closed/below/b.txt", "b\n")
        write(folder / "no_entry/c.txt", "c\n")
        folder.chmod(0o755)
        assert as_ordinary_user(_words, folder) == [["a"], ["b"], ["c"]]
        if name == "dangling":
            unreadable.symlink_to(folder / "nowhere")
        else:
            unreadable.chmod(0o444 if name == "no_entry" else 0)
        found = as_ordinary_user(_words, folder)
        if name != "dangling":
            unreadable.chmod(0o755)
    assert str(unreadable) in found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing.txt", "expected a file, a folder, a glob or a URL"),
        ("*.txt", "found none for this glob"),
        ("empty", "found an empty folder"),
    ],
)
def test_nothing_to_read_is_an_error(tmp_path: Path, path: str, message: str) -> None:
    """Each error names the path as it was given."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=message) as error:
        find_files(tmp_path / path)
    assert str(tmp_path / path) in str(error.value)


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_a_damaged_archive_is_named(tmp_path: Path, kind: str) -> None:
    """By definition: one sentence with the name, whatever the archive's library raises."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(random.Random(0).randbytes(5000))
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "in"))
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 255
    archive.write_bytes(data if kind == "zip" else data[: len(data) // 2])
    with pytest.raises(InputError, match=rf"^{archive}!a\.txt: expected .*, found damage \("):
        find_files(f"{archive}!a.txt")
