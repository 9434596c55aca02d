import resource
import sys
from pathlib import Path

import pytest
from allennlp.commands import main

import elmo_plugin.plugin.commands.encode  # noqa: F401 (registers the command)
from elmo_plugin.checks import InputError
from elmo_plugin.text.corpus import EncodedCorpus

MEGABYTE = 1 << 20


def bilm_encode(*arguments: str | Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["allennlp", "bilm-encode", *map(str, arguments)])
        main()


def test_encodes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Counted by hand, the text has 8 tokens, 3 sentences and 2 documents; its words are a, b,
    longest and three special ones. With 7 characters a word keeps 5 bytes, so `longest` is cropped
    2 of 8 times."""
    (tmp_path / "text.txt").write_text("a b a\na longest b\n\na longest\n")
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus", "--max-characters", "7")
    report = {line[:16].strip(): line[16:].split() for line in capsys.readouterr().out.splitlines()}
    assert report["tokens"] == ["8"]
    assert report["sentences"] == ["3"]
    assert report["documents"] == ["2"]
    assert report["distinct words"] == ["6"]
    assert " ".join(report["cropped words"]) == "1 longer than 5 bytes, 25.0000% of the tokens"
    assert "tokens/s" in report
    assert EncodedCorpus.open(tmp_path / "corpus").num_tokens == 8


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


def test_an_existing_folder_is_not_replaced(tmp_path: Path) -> None:
    """The error names the option as it is typed, and only if it would help."""
    (tmp_path / "text.txt").write_text("a b\n")
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    with pytest.raises(InputError, match=r"^out: .*corpus: .* \(--force replaces it\)$"):
        bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    with pytest.raises(InputError, match=r"^out: .*text\.txt: .* found something else$"):
        bilm_encode(tmp_path / "text.txt", tmp_path / "text.txt")


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus is replaced as a whole folder, after which a shell in the old one would see no file.
    The error says so, and the corpus stays, however the folder is named."""
    (tmp_path / "text.txt").write_text("a b\n")
    corpus = tmp_path / "corpus"
    bilm_encode(tmp_path / "text.txt", corpus)
    (corpus / "below").mkdir()
    for folder, names in ((corpus, (".", "./", corpus, "../corpus")), (corpus / "below", ("..",))):
        monkeypatch.chdir(folder)
        for name in names:
            with pytest.raises(InputError, match=rf"^{corpus}: .*found the current folder"):
                bilm_encode(tmp_path / "text.txt", name, "--force")
    assert EncodedCorpus.open(corpus).num_tokens == 2


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_to_a_corpus(tmp_path: Path, exists: bool) -> None:
    """As with any output, the link stays, and the corpus is where it points."""
    (tmp_path / "text.txt").write_text("a b\n")
    if exists:
        bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
        (tmp_path / "text.txt").write_text("a b c\n")
    (tmp_path / "link").symlink_to("corpus")
    bilm_encode(tmp_path / "text.txt", tmp_path / "link", *["--force"] * exists)
    assert (tmp_path / "link").is_symlink()
    assert EncodedCorpus.open(tmp_path / "corpus").num_tokens == 2 + exists


@pytest.mark.parametrize(
    ("option", "values"),
    [("--max-characters", [2, -1, 10**12]), ("--shard-tokens", [0, -1, 10**12])],
)
def test_wrong_numbers_are_named(tmp_path: Path, option: str, values: list[int]) -> None:
    """The error names the option or the argument, and nothing is written."""
    (tmp_path / "text.txt").write_text("a b\n")
    for value in values:
        with pytest.raises(InputError, match=rf"^{option}: expected .*, found {value}$"):
            bilm_encode(tmp_path / "text.txt", tmp_path / "corpus", f"{option}={value}")
    for text, out in [("", tmp_path / "corpus"), (tmp_path / "text.txt", "")]:
        with pytest.raises(InputError, match=r"^(text|out): expected a path, found ''$"):
            bilm_encode(text, out)
    assert [file.name for file in tmp_path.iterdir()] == ["text.txt"]


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The system refuses files of more than a megabyte, and a million tokens take four. The corpus
    that was to be replaced stays, and only its lock is left next to it."""
    (tmp_path / "text.txt").write_text("a b\n")
    bilm_encode(tmp_path / "text.txt", tmp_path / "corpus")
    (tmp_path / "text.txt").write_text("a " * 1_000_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE, hard))
    try:
        with pytest.raises(OSError, match=r"corpus: could not write .* is there space left"):
            bilm_encode(tmp_path / "text.txt", tmp_path / "corpus", "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(EncodedCorpus.open(tmp_path / "corpus").sentences()) == [["a", "b"]]
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", ".corpus.lock", "corpus"}
