from functools import partial
from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text.corpus import EncodedCorpus
from tests.conftest import allennlp, file_size_limit

bilm_encode = partial(allennlp, "bilm-encode")


def test_encodes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """By hand: the text has 8 tokens and 3 sentences; its words are a, b and longest. A word
    keeps 48 bytes, so `longest`, which has 60, is cropped 2 of 8 times."""
    longest = "\u00e9" * 30
    (tmp_path / "text.txt").write_text(f"a b a\na {longest} b\n\na {longest}\n", "utf-8")
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    report = {line[:16].strip(): line[16:].split() for line in capsys.readouterr().out.splitlines()}
    assert report["tokens"] == ["8"]
    assert report["sentences"] == ["3"]
    assert report["distinct words"] == ["3"]
    assert " ".join(report["cropped words"]) == "1 longer than 48 bytes, 25.0000 % of the tokens"
    assert report["longest word"] == ["60", "bytes"]
    assert "tokens/s" in report
    assert EncodedCorpus(tmp_path / "corpus").num_tokens == 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"bad\.txt: expected sentences, found no token"),
        (b"\n \n\n", r"bad\.txt: expected sentences, found no token"),
        (b"good\nna\xefve\n", r"bad\.txt, line 2: expected UTF-8, found the byte 0xef at byte 3"),
    ],
)
def test_bad_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the text, and no corpus is written."""
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        bilm_encode(tmp_path / "bad.txt", tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_an_existing_output_is_not_replaced(tmp_path: Path) -> None:
    """A corpus stays, and so does a file."""
    (tmp_path / "text.txt").write_text("a b\n")
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    for name in ("corpus", "text.txt"):
        with pytest.raises(InputError, match=rf"^\S+{name}: .*; remove it to encode the text"):
            bilm_encode(tmp_path / "text.txt", tmp_path / name)
    assert EncodedCorpus(tmp_path / "corpus").num_tokens == 2
    assert (tmp_path / "text.txt").read_text() == "a b\n"


def test_a_link_to_a_corpus(tmp_path: Path) -> None:
    """As with any output, the link stays, and the corpus is where it points."""
    (tmp_path / "text.txt").write_text("a b\n")
    (tmp_path / "link").symlink_to("corpus")
    bilm_encode(tmp_path / "text.txt", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert EncodedCorpus(tmp_path / "corpus").num_tokens == 2


def test_a_full_disk(tmp_path: Path) -> None:
    """The system refuses files of more than a megabyte, and a million tokens take four. Only the
    lock of the corpus is left, and the same command writes it once there is space."""
    (tmp_path / "text.txt").write_text("a " * 1_000_000)
    message = r"corpus: could not write .* is there space left"
    with file_size_limit(1 << 20), pytest.raises(OSError, match=message):
        bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", ".corpus.lock"}
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    assert EncodedCorpus(tmp_path / "corpus").num_tokens == 1_000_000
