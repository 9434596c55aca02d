"""
The commands that read raw text, in lines of several sentences (`--raw`) and in lines that end
anywhere (`--running-text`). The oracles are the sentences, which are written by hand.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import h5py
import pytest

from elmo_plugin import Elmo
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora.uses import read_uses
from tests.compare import assert_close

TEXT = """The nurse drank the cold
water. She was
thirsty.

A dog! The old dog
and the young dog
"""
SENTENCES = [
    "The nurse drank the cold water .",
    "She was thirsty .",
    "A dog !",
    "The old dog and the young dog",
]
FIRST_LINES = [0, 1, 4, 4]
MODEL = ["--pretrained", "tiny"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text(TEXT)
    return tmp_path / "text"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw").write_text("  The old dog\tran. It was thirsty.\n\u00a0A dog! \n", "utf-8")
    return tmp_path / "raw"


def run(*arguments: Any) -> None:
    assert run_program(str(arguments[0]), [*map(str, arguments[1:]), *MODEL]) is None


def scored(capsys: pytest.CaptureFixture, *arguments: Any) -> str:
    capsys.readouterr()
    run("score", *arguments)
    return capsys.readouterr().out


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_scores_of_running_text(text, model, capsys):
    """A row of the table is a token of a sentence, whose number counts the sentences; a token has
    its place in the whole text, and its line is that in which its sentence begins."""
    expected = model.score([sentence.split() for sentence in SENTENCES])
    rows = rows_of(scored(capsys, text, "--running-text"))
    assert [row["token"] for row in rows] == " ".join(SENTENCES).split()
    for row in rows:
        number, position = int(row["sentence"]), int(row["position"])
        assert expected[number].tokens[position] == row["token"]
        assert float(row["forward"]) == pytest.approx(expected[number].forward[position], abs=1e-5)
        assert TEXT[int(row["start"]) : int(row["end"])] == row["token"]
        assert int(row["line"]) == FIRST_LINES[number]
    lines = scored(capsys, text, "--running-text", "--format", "jsonl").splitlines()
    for number, (line, scores) in enumerate(zip(map(json.loads, lines), expected, strict=True)):
        assert (line["sentence"], line["line"]) == (number, FIRST_LINES[number])
        assert_close(line["backward"], scores.backward, what="backward", atol=1e-5)


def test_the_scores_of_lines_of_several_sentences(raw, model, capsys):
    """A line is one row, whose numbers are those of `LanguageModel.score`. A token is what its
    line, as it is in the file, has between `start` and `end`."""
    texts = raw.read_text("utf-8").splitlines()
    expected = model.score(texts, raw=True)
    rows = rows_of(scored(capsys, raw, "--raw"))
    assert [int(row["sentence"]) for row in rows] == [0] * 9 + [1] * 3
    assert [int(row["sentence_in_row"]) for row in rows] == [0] * 5 + [1] * 4 + [0] * 3
    assert [int(row["position"]) for row in rows] == [*range(9), *range(3)]
    for row in rows:
        assert texts[int(row["sentence"])][int(row["start"]) : int(row["end"])] == row["token"]
    lines = scored(capsys, raw, "--raw", "--format", "jsonl").splitlines()
    for number, (line, scores) in enumerate(zip(map(json.loads, lines), expected, strict=True)):
        assert line["sentence"] == number
        assert line["sentence_in_row"] == scores.sentence
        assert [texts[number][start:end] for start, end in line["spans"]] == scores.tokens
        assert_close(line["forward"], scores.forward, what="forward", atol=1e-5)


def test_the_vectors_of_running_text_and_of_lines(text: Path, raw: Path) -> None:
    """The datasets are named by the numbers of sentences, or of lines of several sentences."""
    run("elmo", text, text.with_name("running"), "--top", "--running-text")
    run("elmo", raw, text.with_name("lines"), "--top", "--raw")
    elmo = Elmo.from_pretrained("tiny")
    lines = raw.read_text().splitlines()
    with h5py.File(text.with_name("running")) as running, h5py.File(text.with_name("lines")) as one:
        for number, sentence in enumerate(SENTENCES):
            expected = elmo.embed(sentence.split(), "top")
            assert_close(running[str(number)][()], expected, what=sentence, atol=1e-5)
        for number, expected in enumerate(elmo.embed(lines, "top", raw=True)):
            assert_close(one[str(number)][()], expected, what=lines[number], atol=1e-5)
        index = json.loads(running["sentence_to_index"][0])
        assert index == {sentence: str(number) for number, sentence in enumerate(SENTENCES)}
        assert "The old dog ran . It was thirsty ." in json.loads(one["sentence_to_index"][0])


def test_uses_in_running_text(text: Path) -> None:
    """By hand: a sentence that continues on the next line has all its words."""
    words = text.with_name("words")
    words.write_text("dog\nwater\n")
    run("uses", text, words, text.with_name("out"), "--running-text")
    found = read_uses(text.with_name("out"))
    columns = ["token", "sentence", "position", "line", "text"]
    assert list(found[columns].itertuples(index=False, name=None)) == [
        ("water", 0, 5, 0, SENTENCES[0]),
        ("dog", 2, 1, 4, SENTENCES[2]),
        ("dog", 3, 2, 4, SENTENCES[3]),
        ("dog", 3, 6, 4, SENTENCES[3]),
    ]
    vectors = Elmo.from_pretrained("tiny").embed(SENTENCES[3].split(), "top")
    assert_close(found["vector"][3], vectors[6], what="the last use", atol=1e-5)
