from functools import partial
from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text.corpus import EncodedCorpus
from tests.conftest import allennlp, write_file

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


def test_errors(tmp_path: Path) -> None:
    """By definition: the error names the line of the text, or the file that is there, which stays.
    tests/text/test_encoding.py has a text without tokens, a corpus that is there and a full
    disk."""
    bad = write_file(tmp_path / "bad.txt", b"good\nna\xefve\n")
    for out, message in ((tmp_path / "corpus", ", line 2: .* 0xef"), (bad, ": .*; remove it to ")):
        with pytest.raises(InputError, match=rf"^\S+bad\.txt{message}"):
            bilm_encode(bad, out)
    assert not (tmp_path / "corpus").exists() and len(bad.read_bytes()) == 11


def test_a_link_to_a_corpus(tmp_path: Path) -> None:
    """As with any output, the link stays, and the corpus is where it points."""
    (tmp_path / "text.txt").write_text("a b\n")
    (tmp_path / "link").symlink_to("corpus")
    bilm_encode(tmp_path / "text.txt", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert EncodedCorpus(tmp_path / "corpus").num_tokens == 2
