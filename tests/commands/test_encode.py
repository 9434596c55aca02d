import sys
from pathlib import Path

import pytest
from allennlp.commands import main

import elmo_plugin.commands.encode  # noqa: F401 (registers the command)
from elmo_plugin.data.corpus import EncodedCorpus


def test_encodes_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """By hand: 8 tokens, 3 sentences, 2 documents; the words are a, b, longest and three special
    ones; with 7 characters a word keeps 5 bytes, so `longest` is cropped, 2 of 8 times."""
    (tmp_path / "text.txt").write_text("a b a\na longest b\n\na longest\n")
    arguments = [str(tmp_path / "text.txt"), str(tmp_path / "corpus"), "--max-characters", "7"]
    monkeypatch.setattr(sys, "argv", ["allennlp", "bilm-encode", *arguments])
    main()
    report = {line[:16].strip(): line[16:].split() for line in capsys.readouterr().out.splitlines()}
    assert report["tokens"] == ["8"]
    assert report["sentences"] == ["3"]
    assert report["documents"] == ["2"]
    assert report["distinct words"] == ["6"]
    assert " ".join(report["cropped words"]) == "1 longer than 5 bytes, 25.0000% of the tokens"
    assert "tokens/s" in report
    assert EncodedCorpus.open(tmp_path / "corpus").num_tokens == 8
