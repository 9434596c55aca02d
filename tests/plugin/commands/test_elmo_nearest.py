"""The command `elmo-nearest`; tests/elmo/test_nearest.py compares the search with an oracle."""

import io
import os
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.nearest import Occurrence, Sentence, nearest_occurrences, text_sentences
from tests.conftest import BiLMFiles, allennlp
from tests.ending import ends

TEXT = """\
He threw the stick to the dog .
Stick to it & <b> win </b> .

The dog threw a stick .
the dog
"""


elmo_nearest = partial(allennlp, "elmo-nearest")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def test_a_marked_word(text: Path, bilm_archive: str, capsys: pytest.CaptureFixture) -> None:
    """Expected: the result of the search, with asterisks around the words."""
    arguments = ["--archive-file", bilm_archive, "-k", 3, "--layer", 1]
    elmo_nearest(text, "--sentence", "A *dog* .", *arguments)
    lines = capsys.readouterr().out.splitlines()[-4:]
    query = Occurrence(Sentence(("A", "dog", ".")), 1)
    elmo = Elmo.from_archive(bilm_archive)
    (found,) = nearest_occurrences(elmo, [query], text_sentences(text), k=3, layer=1)
    assert lines[0] == "A *dog* ."
    for line, (cosine, occurrence) in zip(lines[1:], found):
        words = list(occurrence.sentence.words)
        words[occurrence.position] = f"*{occurrence.word}*"
        assert line == f"  {cosine:.3f}  {' '.join(words)}  ({occurrence.sentence.source})"


def test_a_word_of_the_text(
    text: Path, bilm_files: BiLMFiles, capsys: pytest.CaptureFixture
) -> None:
    """By hand: of the three occurrences of stick, the first two are the queries, and each has the
    other two as neighbors."""
    model = ["--options-file", bilm_files.options_file, "--weight-file", bilm_files.weight_file]
    elmo_nearest(text, "--word", "STICK", "--queries", 2, "--same-word", *model)
    lines = [line for line in capsys.readouterr().out.splitlines() if "*" in line]
    sources = {"line 1": "*stick* to the", "line 2": "*Stick* to it", "line 4": "a *stick* ."}
    for query, (first, *rest) in zip(sources, (lines[:3], lines[3:])):
        assert sources[query] in first
        assert {re.findall(r"line \d", line)[0] for line in rest} == sources.keys() - {query}


@pytest.mark.parametrize("n, expected", [(2, [0, 2]), (3, [0, 1, 3]), (9, [0, 1, 2, 3, 4])])
def test_queries_are_spread_over_the_text(
    n: int, expected: list[int], tmp_path: Path, bilm_archive: str, capsys: pytest.CaptureFixture
) -> None:
    """By hand: two of five occurrences are the first one and the third one. Equal sentences count
    once."""
    (tmp_path / "text.txt").write_text("".join(f"dog {k}\n" for k in (0, 0, 1, 0, 2, 3, 4)))
    elmo_nearest(
        tmp_path / "text.txt", "--word", "dog", "--queries", n, "--archive-file", bilm_archive
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("*dog*")] == [f"*dog* {k}" for k in expected]


def test_a_terminal_that_is_not_utf8(
    text: Path, bilm_archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: such a terminal gets Python's escapes. The byte 0xff of an argument, which is no
    text, is shown as an escape too."""
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, "ascii", write_through=True))
    (tmp_path / "text.txt").write_text("the caf\u00e9\n", "utf-8")
    sentence = "the *caf\u00e9* \udcff"
    elmo_nearest(text, "--sentence", sentence, "--archive-file", bilm_archive, "-k", 1)
    query, neighbor = terminal.getvalue().decode("ascii").splitlines()[-2:]
    assert query == r"the *caf\xe9* \udcff" and r"*caf\xe9*" in neighbor


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sentence", "a dog"], r"^--sentence: 'a dog': expected one word .*, found 0$"),
        (["--sentence", "*a* *dog*"], r"^--sentence: .*, found 2$"),
        (["--word", "cat"], r"^--word: expected a word of .*text\.txt, which .*, found 'cat'$"),
        (["--word", "dog", "-k", 0], r"^-k: expected a whole number from 1"),
        (["--word", "dog", "--queries", 0], r"^--queries: expected a whole number from 1"),
        (["--word", "dog", "-k", 10**9], r"^-k: expected a whole number from 1 to 1000, found"),
        (["--word", "dog", "--queries", 2**31 - 1], r"^--queries: expected .* from 1 to 1000, f"),
        (["--word", "dog", "--layer", "9" * 5000], r"^--layer: expected top, average or"),
        (["--word", "dog", "--layer", "3"], r"^--layer: expected top, average or .* found '3'$"),
        (["--word", "dog", "--layer", "-1"], r"^--layer: expected top, average or .* found '-1'$"),
    ],
)
@ends
def test_bad_arguments(text: Path, bilm_archive: str, arguments: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        elmo_nearest(text, *arguments, "--archive-file", bilm_archive)


def test_a_pipe_is_refused(bilm_archive: str) -> None:
    """Queries of `--word` are chosen from all of the text, before it is searched."""
    pipe, end = os.pipe()
    os.write(end, TEXT.encode())
    os.close(end)
    with pytest.raises(InputError, match=r"^--word: .* and cannot be a pipe, found"):
        elmo_nearest(f"/dev/fd/{pipe}", "--word", "dog", "--archive-file", bilm_archive)
    os.close(pipe)


def test_no_model_and_no_text(text: Path, bilm_archive: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^expected one of --pretrained, .*, found none$"):
        elmo_nearest(text, "--word", "dog")
    with pytest.raises(FileNotFoundError, match="gone"):
        elmo_nearest(tmp_path / "gone", "--word", "dog", "--archive-file", bilm_archive)
