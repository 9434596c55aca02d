"""
The commands that read raw text, in lines of several sentences (`--raw`) and in lines that end
anywhere (`--running-text`). The oracles are the sentences, which are written by hand.
"""

import csv
import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.files.digest import append_checksum
from elmo_plugin.text import forms, raw_text
from elmo_plugin.text.sentence import Sentence
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
    (tmp_path / "raw").write_text("The old dog ran. It was thirsty.\nA dog!\n")
    return tmp_path / "raw"


@pytest.fixture
def model() -> LanguageModel:
    return LanguageModel.from_pretrained("tiny")


def run(*arguments: Any) -> None:
    assert run_program(str(arguments[0]), [*map(str, arguments[1:]), *MODEL]) is None


def scored(capsys: pytest.CaptureFixture, *arguments: Any) -> str:
    capsys.readouterr()
    run("score", *arguments)
    return capsys.readouterr().out


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_scores_of_running_text(
    text: Path, model: LanguageModel, capsys: pytest.CaptureFixture
) -> None:
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


def test_the_scores_of_lines_of_several_sentences(
    raw: Path, model: LanguageModel, capsys: pytest.CaptureFixture
) -> None:
    """A line is one row, whose numbers are those of `LanguageModel.score`."""
    expected = model.score(raw.read_text().splitlines(), raw=True)
    rows = rows_of(scored(capsys, raw, "--raw"))
    assert [int(row["sentence"]) for row in rows] == [0] * 9 + [1] * 3
    assert [int(row["sentence_in_row"]) for row in rows] == [0] * 5 + [1] * 4 + [0] * 3
    assert [int(row["position"]) for row in rows] == [*range(9), *range(3)]
    lines = scored(capsys, raw, "--raw", "--format", "jsonl").splitlines()
    for number, (line, scores) in enumerate(zip(map(json.loads, lines), expected, strict=True)):
        assert line["sentence"] == number
        assert line["sentence_in_row"] == scores.sentence
        assert_close(line["forward"], scores.forward, what="forward", atol=1e-5)


@pytest.mark.parametrize("command", ["elmo", "score", "uses"])
def test_shards_and_resuming(
    command: str, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Two shards have the sentences of the whole. A run that is interrupted while its parts are
    joined keeps them, and the next run joins them."""
    out, words = text.with_name("out"), text.with_name("words")
    words.write_text("dog\nwater\nthirsty\n")
    arguments = {
        "elmo": ["elmo", text, out, "--top"],
        "score": ["score", text, "--output-file", out],
        "uses": ["uses", text, words, out],
    }[command]

    def sentences() -> set[str]:
        if command == "uses":
            found = {str(number) for number in read_uses(out)["sentence"]}
        elif command == "score":
            found = {row["sentence"] for row in rows_of(out.read_text())}
        else:
            with h5py.File(out) as file:
                found = set(file) - {"sentence_to_index"}
        out.unlink()
        return found

    both = set()
    for shard in ("1/2", "2/2"):
        run(*arguments, "--running-text", "--shard", shard)
        both |= sentences()
    assert both == {"0", "1", "2", "3"}
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted(out.name))
        program = run_program(command, [*map(str, arguments[1:]), "--running-text", *MODEL])
        assert program == 130 and not out.exists()
    with monkeypatch.context() as patch:
        patch.setattr(Elmo, "embed_rows", None)
        patch.setattr(LanguageModel, "score", None)
        run(*arguments, "--running-text")
    assert sentences() == {"0", "1", "2", "3"}


@pytest.mark.parametrize("package", ["nltk", "nupunkt"])
@pytest.mark.parametrize("option", ["--raw", "--running-text"])
@pytest.mark.parametrize("command", ["elmo", "score", "uses"])
def test_resuming_with_another_splitter(
    command: str, option: str, package: str, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: an interrupted run is not mixed with the tokens of another version, also if
    these are other ones; the error has both versions, and says nothing of the text."""
    out, words = raw.with_name("out"), raw.with_name("words")
    words.write_text("dog\nthirsty\n")
    arguments = {
        "elmo": ["elmo", raw, out, "--top"],
        "score": ["score", raw, "--output-file", out],
        "uses": ["uses", raw, words, out, "--controls", 1, "--compared-with", raw],
    }[command]
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted(out.name))
        program = run_program(command, [*map(str, arguments[1:]), option, *MODEL])
        assert program == 130 and not out.exists()
    module = sys.modules[package]
    message = f"expected the splitters of the interrupted run, .*{package} {module.__version__}"
    split = raw_text.split_text
    monkeypatch.setattr(module, "__version__", "0.1")
    for place in (raw_text, forms):
        without_last = lambda *x, **place: [*map(_without_last, split(*x, **place))]  # noqa: E731
        monkeypatch.setattr(place, "split_text", without_last)
    program = run_program(command, [*map(str, arguments[1:]), option, *MODEL])
    assert re.search(f"{message}.*, found .*{package} 0.1", str(program))


def _without_last(x: Sentence) -> Sentence:
    if len(x.tokens) < 2:
        return x
    return replace(x, tokens=x.tokens[:-1], spans=x.spans[:-1], words=x.words[:-1])


def interrupted(name: str) -> Any:
    """`os.replace`, interrupted before it gives a file its name."""
    rename = os.replace

    def replaced(source: Any, target: Any) -> None:
        if Path(target).name == name:
            raise KeyboardInterrupt
        rename(source, target)

    return replaced


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


def test_carry_reads_the_sentences_of_lines_in_turn(
    raw: Path, capsys: pytest.CaptureFixture
) -> None:
    """One line in a batch is read sentence by sentence, and others are refused."""
    arguments = ["--raw", "--initial-state", "carry"]
    run("elmo", raw, raw.with_name("out"), "--top", *arguments, "--batch-size", 1)
    elmo = Elmo.from_pretrained("tiny", initial_state="carry")
    sentences = ["The old dog ran .", "It was thirsty .", "A dog !"]
    expected = [elmo.embed([sentence.split()], "top")[0] for sentence in sentences]
    with h5py.File(raw.with_name("out")) as file:
        assert_close(file["0"][()], np.concatenate(expected[:2]), what="line 0", atol=1e-5)
        assert_close(file["1"][()], expected[2], what="line 1", atol=1e-5)
    program = run_program("elmo", [str(raw), str(raw) + "2", "--top", *arguments, *MODEL])
    assert "initial_state carry: expected one sentence in each of several rows" in str(program)
    rows = rows_of(scored(capsys, raw, *arguments))
    model = LanguageModel.from_pretrained("tiny", initial_state="carry")
    for number, sentence in enumerate(sentences):
        [scores] = model.score([sentence.split()])
        own = [
            x
            for x in rows
            if (x["sentence"], x["sentence_in_row"]) == (str(number // 2), str(number % 2))
        ]
        assert_close([float(x["forward"]) for x in own], scores.forward[:-1], what="f", atol=1e-5)


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


def test_files_of_uses_without_the_columns_are_read(raw: Path) -> None:
    """By hand: a line was one sentence."""
    out, words = raw.with_name("out"), raw.with_name("words")
    words.write_text("dog\n")
    run("uses", raw, words, out, "--raw")
    with h5py.File(out, "r") as file, h5py.File(raw.with_name("older"), "w") as older:
        older.attrs.update(file.attrs)
        for name in set(file) - {"sentence_in_row", "line"}:
            file.copy(name, older)
    append_checksum(raw.with_name("older"))
    found = read_uses(raw.with_name("older"))
    assert list(found["line"]) == list(found["sentence"]) == [0, 1]
    assert list(found["sentence_in_row"]) == [0, 0]
    assert found.drop(columns="vector").equals(read_uses(out).drop(columns="vector"))


@pytest.mark.parametrize("command", ["elmo", "score", "uses"])
def test_raw_warns_of_wrapped_lines(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By definition: one warning that names the option, and none for running text."""
    (tmp_path / "text").write_text(TEXT.replace("\n\n", "\n"))
    (tmp_path / "words").write_text("dog\n")
    for option in ("--running-text", "--raw"):
        out = tmp_path / option
        arguments = {
            "elmo": [tmp_path / "text", out, "--top"],
            "score": [tmp_path / "text", "--output-file", out],
            "uses": [tmp_path / "text", tmp_path / "words", out],
        }[command]
        run(command, *arguments, option)
        messages = [x for x in caplog.messages if "--running-text" in x]
        assert len(messages) == (option == "--raw")
    assert messages[0].startswith("3 of 5 lines begin in lower case")


def test_options_that_exclude_one_another(text: Path, capsys: pytest.CaptureFixture) -> None:
    """Minimal pairs are no text, and a text is read in one of the two ways."""
    pairs = text.with_name("pairs.jsonl")
    pairs.write_text('{"sentence_good": "A dog. It ran.", "sentence_bad": "A dogs. It ran."}\n')
    program = run_program("score", ["--pairs", str(pairs), "--running-text", *MODEL])
    assert "--running-text: expected a text with them, found --pairs" in str(program)
    with pytest.raises(SystemExit):
        run("score", text, "--raw", "--running-text")
    assert "not allowed with argument" in capsys.readouterr().err
    rows = rows_of(scored(capsys, "--pairs", pairs, "--raw"))
    assert rows[-1]["pairs"] == "1"
