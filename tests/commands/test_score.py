"""The command `score`, whose numbers are compared with those of `LanguageModel.score`."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.commands import score
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora import pairs, suite_accuracies, suite_scores
from elmo_plugin.corpora.score_table import read_scores
from elmo_plugin.corpora.writers import TextTable
from tests.conftest import ROOT, allennlp, python, threads, without
from tests.test_line import ABSENT

TEXT = ["he threw the stick to the dog .", "He", "the unheard-of\u00a0dog .", "to the dog"]

WITHOUT_ALLENNLP = f"""{without(*ABSENT, "pandas")}
import runpy
runpy.run_module("elmo_plugin", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("\n".join(TEXT) + "\n", "utf-8")
    return tmp_path / "text"


def run(*arguments: object) -> Any:
    return run_program("score", list(map(str, arguments)))


def printed(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    capsys.readouterr()
    assert run(*arguments) is None
    return capsys.readouterr().out


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("base, precision", [("2", "fp32"), ("e", "bf16")])
def test_both_formats(
    text: Path,
    bilm_archive: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    base: str,
    precision: str,
) -> None:
    """Expected: the numbers of `LanguageModel.score`, rounded to six places, for all of a
    sentence in JSON and for its words in CSV. Of a text without sentences, only the header."""
    monkeypatch.setattr(score, "AT_ONCE", 2)
    arguments = [text, "--archive-file", bilm_archive, "--base", base, "--entropy"]
    arguments += ["--precision", precision]
    lines = [json.loads(x) for x in printed(capsys, *arguments, "--format", "jsonl").splitlines()]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *arguments))))
    model = LanguageModel.from_archive(bilm_archive, precision=precision)
    sentences = [sentence.split() for sentence in TEXT]
    expected = model.score(sentences, True, 2 if base == "2" else "e")
    assert [line["sentence"] for line in lines] == [0, 1, 2, 3]
    for line, scores in zip(lines, expected, strict=True):
        assert line.keys() == {"sentence", *scores._fields[:6], "surprisal"}
        for name, values in scores.fields():
            if name == "tokens":
                assert line[name] == values
            else:
                np.testing.assert_allclose(line[name], values, atol=1e-6)
    assert [row["token"] for row in rows] == [word for s in sentences for word in s]
    row = rows[-2]
    assert [row[name] for name in ("sentence", "position", "token")] == ["3", "1", "the"]
    assert float(row["forward"]) == pytest.approx(expected[3].forward[1], abs=1e-5)
    assert float(row["backward_entropy"]) == pytest.approx(
        expected[3].backward_entropy[2], abs=1e-5
    )
    text.write_text("")
    assert printed(capsys, *arguments, "--format", "jsonl") == ""
    assert printed(capsys, *arguments).split() == [",".join(rows[0])]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_places_in_raw_text(tmp_path: Path, capsys: pytest.CaptureFixture, form: str) -> None:
    """Property: a token is what its line, as it is in the file, has between `start` and `end`."""
    lines = ["It isn't easy.", "  He\tran. ", "\u00a0\tNo ."]
    (tmp_path / "raw").write_text("\n".join(lines) + "\n", "utf-8")
    arguments = [tmp_path / "raw", "--raw", "--pretrained", "tiny", "--format", form]
    text = printed(capsys, *arguments)
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        found = [(int(x["sentence"]), x["token"], int(x["start"]), int(x["end"])) for x in rows]
    else:
        found = [
            (line["sentence"], token, *span)
            for line in map(json.loads, text.splitlines())
            for token, span in zip(line["tokens"], line["spans"], strict=True)
        ]
    tokens = ["It", "is", "n't", "easy", ".", "He", "ran", ".", "No", "."]
    assert [token for _, token, *_ in found] == tokens
    assert all(lines[sentence][start:end] == token for sentence, token, start, end in found)


def test_without_allennlp(text: Path, bilm_archive: str, capsys: pytest.CaptureFixture) -> None:
    """Expected: what the command prints in this process, and an error in one line, also for a text
    that needs a package that is not there."""
    arguments = ["score", text, "--archive-file", bilm_archive]
    done = python("-c", WITHOUT_ALLENNLP, *arguments)
    assert done.stdout == printed(capsys, *arguments[1:])
    wrong = "sys.argv[1:] = ['score', 'gone', '--pretrained', 'tiny']" + WITHOUT_ALLENNLP
    with pytest.raises(AssertionError, match=r"^python -m elmo_plugin: gone: expec"):
        python("-c", f"import sys\n{wrong}")
    text.write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(AssertionError, match=r"text: expected the package zstandard, found none"):
        python("-c", WITHOUT_ALLENNLP, *arguments)


def test_as_a_command_of_allennlp(
    text: Path, bilm_archive: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Expected: what is printed without AllenNLP, here in a file."""
    arguments = [text, "--archive-file", bilm_archive]
    allennlp("score", *arguments, "--output-file", tmp_path / "out")
    assert (tmp_path / "out").read_text("utf-8") == printed(capsys, *arguments)


@pytest.mark.parametrize("initial_state", ["warm", "carry"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_killed_and_resumed(
    text: Path,
    tmp_path: Path,
    bilm_archive: str,
    monkeypatch: pytest.MonkeyPatch,
    initial_state: str,
    form: str,
) -> None:
    """The file is that of an uninterrupted run, no part is computed twice, and nothing is left. A
    run with other settings is refused."""
    monkeypatch.setattr(score, "PART_SENTENCES", 2)
    model = ["--archive-file", bilm_archive, "--initial-state", initial_state, "--format", form]
    assert run(text, *model, "--output-file", tmp_path / "whole") is None
    whole_score, calls = LanguageModel.score, []

    def killed(self: LanguageModel, sentences: list[Any], *args: Any, **kwargs: Any) -> Any:
        if calls:
            raise KeyboardInterrupt
        calls.append(sentences)
        return whole_score(self, sentences, *args, **kwargs)

    arguments = [text, *model, "--output-file", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr(score, "AT_ONCE", 1)
        patch.setattr(LanguageModel, "score", killed)
        assert run(*arguments) == 130
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patch:
        patch.setattr(TextTable, "join", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(*arguments) == 130
    for other, difference in (
        (["--entropy"], "entropy of the interrupted run, False, found True"),
        (["--raw"], "raw of the interrupted run, False, found True"),
        (["--base", "e"], "base of the interrupted run, 2, found e"),
        (["--format", "csv" if form == "jsonl" else "jsonl"], "format of the interrupted run, "),
        (["--archive-file", "pretrained://tiny"], "model of the interrupted run, "),
    ):
        assert f"expected the {difference}" in run(*arguments, *other)
    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "score", None)
        assert run(*arguments) is None
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"text", "whole", "out"}


def test_resumed_with_another_number_of_threads(
    text: Path,
    tmp_path: Path,
    bilm_archive: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The expected table is that of a run without interruption. A table has no place for what it
    was computed with, which is in a file of its own until a run that had no other settings."""
    monkeypatch.setattr(score, "PART_SENTENCES", 1)
    arguments = [text, "--archive-file", bilm_archive, "--output-file"]
    assert run(*arguments, tmp_path / "whole") is None
    tables = score._tables

    def killed(*given: Any) -> Any:
        if given[-1][0][0].row:
            raise KeyboardInterrupt
        return tables(*given)

    with monkeypatch.context() as patch:
        patch.setattr(score, "_tables", killed)
        assert run(*arguments, tmp_path / "out") == 130
    n_threads = torch.get_num_threads()
    with threads(n_threads + 1):
        assert run(*arguments, tmp_path / "out") is None
    assert "up to rounding" in caplog.text
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    record = tmp_path / "out.computed_with.json"
    key = "number of threads (OMP_NUM_THREADS)"
    assert [x[key] for x in json.loads(record.read_text())] == [n_threads, n_threads + 1]
    (tmp_path / "out").unlink()
    assert run(*arguments, tmp_path / "out") is None
    assert not record.exists()


def test_carry_continues_from_the_sentence_before(
    text: Path, bilm_archive: str, capsys: pytest.CaptureFixture
) -> None:
    """Expected: the sentences one by one in order by `LanguageModel.score`."""
    arguments = [text, "--archive-file", bilm_archive, "--initial-state", "carry"]
    lines = printed(capsys, *arguments, "--format", "jsonl").splitlines()
    model = LanguageModel.from_archive(bilm_archive, initial_state="carry")
    for line, sentence in zip(lines, TEXT, strict=True):
        [expected] = model.score([sentence.split()])
        np.testing.assert_allclose(json.loads(line)["forward"], expected.forward, atol=1e-5)


DOCUMENTS = ["", "he threw the stick .", "the dog ran", "", "", "The dog .", "", "to the dog", ""]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Expected: the numbers of `LanguageModel.score` with a label for each document, and the lines
    in the file. A run that was stopped after a document continues with the next one."""
    (tmp_path / "text").write_text("\n".join(DOCUMENTS) + "\n")
    arguments = [tmp_path / "text", "--documents", "--pretrained", "tiny", "--format", form]
    whole = printed(capsys, *arguments)
    lines = [1, 2, 5, 7]
    sentences = [DOCUMENTS[line].split() for line in lines]
    expected = LanguageModel.from_pretrained("tiny").score(sentences, documents=[1, 1, 5, 7])
    if form == "jsonl":
        found = list(map(json.loads, whole.splitlines()))
        assert [(x["sentence"], x["document"]) for x in found] == [*zip(lines, [1, 1, 5, 7])]
        for line, scores in zip(found, expected, strict=True):
            np.testing.assert_allclose(line["forward"], scores.forward, atol=1e-5)
            np.testing.assert_allclose(line["backward"], scores.backward, atol=1e-5)
    else:
        rows = list(csv.DictReader(io.StringIO(whole)))
        numbers = [float(row["forward"]) for row in rows]
        words = np.hstack([x.forward[:-1] for x in expected])
        np.testing.assert_allclose(numbers, words, atol=1e-5)
        documents = {int(row["sentence"]): int(row["document"]) for row in rows}
        assert documents == dict(zip(lines, [1, 1, 5, 7]))
    monkeypatch.setattr(score, "PART_SENTENCES", 1)
    tables, done = score._tables, []

    def killed(*given: Any) -> Any:
        if given[-1][0][0].row == 5:
            raise KeyboardInterrupt
        done.append([line[0].row for line in given[-1]])
        return tables(*given)

    out = [*arguments, "--output-file", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr(score, "_tables", killed)
        assert run(*out) == 130
    assert done == [[1, 2]]
    other = run(*arguments[:1], *arguments[2:], *out[-2:])
    assert "expected a sentence, found an empty line" in other
    assert run(*out) is None
    assert (tmp_path / "out").read_text() == printed(capsys, *arguments)


def test_ranks_and_missing_numbers(
    text: Path, bilm_archive: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Expected: the numbers of `LanguageModel.score`. A word that the softmax lacks has empty
    fields in CSV, which R and pandas read as missing numbers, and null in JSON."""
    arguments = [text, "--archive-file", bilm_archive, "--rank", "--unknown-missing"]
    columns = "sentence,position,token,in_vocabulary,forward,backward,surprisal"  # as R needs them
    assert printed(capsys, *arguments[:-2]).partition("\n")[0] == columns
    table = printed(capsys, *arguments)
    assert table.partition("\n")[0] == columns + ",forward_rank,backward_rank"
    (tmp_path / "table.csv").write_text(table, "utf-8")
    data = read_scores(tmp_path / "table.csv")
    model = LanguageModel.from_archive(bilm_archive)
    sentences = [sentence.split() for sentence in TEXT]
    scores = model.score(sentences, rank=True, unknown_missing=True)
    for name in ("surprisal", "forward", "forward_rank"):
        expected = np.hstack([getattr(x, name)[: len(x.tokens)] for x in scores])
        assert 0 < np.isnan(expected).sum() < len(expected)
        np.testing.assert_allclose(data[name], expected, atol=1e-5)
    lines = printed(capsys, *arguments, "--format", "jsonl").splitlines()
    for line, of_line in zip(map(json.loads, lines), scores, strict=True):
        known = of_line.in_vocabulary.tolist()
        assert [x is not None for x in line["surprisal"]] == known
        assert [x is not None for x in line["backward_rank"]] == [True, *known]


def test_shards_are_the_whole(text: Path, bilm_archive: str, capsys: pytest.CaptureFixture) -> None:
    """By definition: the rows of every second sentence, under its number in the text."""
    arguments = [text, "--archive-file", bilm_archive]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *arguments))))
    for shard in (1, 2):
        text_of_shard = printed(capsys, *arguments, "--shard", f"{shard}/2")
        found = list(csv.DictReader(io.StringIO(text_of_shard)))
        expected = [row for row in rows if int(row["sentence"]) % 2 == shard - 1]
        for one, other in zip(found, expected, strict=True):
            for name in ("forward", "backward"):
                assert float(one.pop(name)) == pytest.approx(float(other.pop(name)), abs=1e-5)
            assert one == other


MISSING_BY_NAME = ["None", "NA", "nan", "null", "N/A", "007", "1e5", "True", '"', "a,b"]
"""Words that look like missing values, numbers or quotes to a reader of CSV."""
PAGE = (ROOT / "docs" / "surprisal.md").read_text("utf-8")


@pytest.mark.parametrize("reader", ["our function", "the call on the page"])
def test_words_in_a_table_stay_words(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """By definition: the tokens are those of the text, and the missing numbers those of the words
    that the softmax lacks. The call on the page, which needs only pandas, is run as it is there."""
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(MISSING_BY_NAME), "the NA dog", "null"]
    Path("TEXT").write_text("\n".join(lines) + "\n")
    options = ["--pretrained", "tiny", "--unknown-missing", "--rank"]
    printed(capsys, "TEXT", *options, "--output-file", "SCORES.csv")
    (call,) = re.findall(r"^words = (pandas\.read_csv\(.*\))$", PAGE, re.MULTILINE)
    found = read_scores("SCORES.csv") if reader == "our function" else eval(call)
    assert found["token"].tolist() == " ".join(lines).split()
    assert [found[name].dtype.kind for name in ("sentence", "position")] == ["i", "i"]
    assert found["in_vocabulary"].dtype == bool
    with Path("SCORES.csv").open(encoding="utf-8", newline="") as file:  # as base R reads them
        written = [row["in_vocabulary"] for row in csv.DictReader(file)]
    assert written == [str(known).upper() for known in found["in_vocabulary"]]
    scores = LanguageModel.from_pretrained("tiny").score(
        pandas.Series(lines), rank=True, unknown_missing=True
    )
    for name in ("surprisal", "forward", "forward_rank"):
        expected = np.hstack([getattr(x, name)[: len(x.tokens)] for x in scores])
        assert 0 < np.isnan(expected).sum() < len(expected)
        np.testing.assert_allclose(found[name].to_numpy(), expected, atol=1e-5)


def test_other_files_are_no_table_of_scores(text: Path, tmp_path: Path) -> None:
    """By definition: an error names the file. A table that was cut in a row is one of them."""
    out = tmp_path / "scores.jsonl"
    assert run(text, "--pretrained", "tiny", "--format", "jsonl", "--output-file", out) is None
    with pytest.raises(InputError, match=r"scores\.jsonl: expected a table with one column token"):
        read_scores(out)
    (tmp_path / "cut.csv").write_text("sentence,token,surprisal\n0,He,4.1\n0,ran\n")
    with pytest.raises(InputError, match=r"cut\.csv, line 3: expected 3 fields, as in the header"):
        read_scores(tmp_path / "cut.csv")
    for form in ("csv", "csv.gz", "tsv"):
        file, separator = tmp_path / f"empty.{form}", "\t" if form == "tsv" else ","
        pandas.DataFrame({"sentence": [], "token": []}).to_csv(file, index=False, sep=separator)
        assert form == "tsv" or read_scores(file).shape == (0, 2)


@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "TABLE.CSV.gz", "table.tsv.xz"])
@pytest.mark.parametrize("options", [(), ("--raw",), ("--shard", "2/2"), ("--format", "jsonl")])
def test_the_sentences_of_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str, options: tuple
) -> None:
    """Expected: what is written for the text of the column, whose lines have the numbers of the
    rows. pandas writes the table."""
    sentences = ['He threw, "it" .', "the dog ran .", "He\u00a0left ."]
    data = pandas.DataFrame({"item": [1, 2, 3], "sentence": sentences, "note": ["a,b", None, "c"]})
    data.to_csv(tmp_path / name, index=False, sep="," if "csv" in name.lower() else "\t")
    (tmp_path / "text").write_text("\n".join(sentences) + "\n", "utf-8")
    expected = printed(capsys, tmp_path / "text", "--pretrained", "tiny", *options)
    assert printed(capsys, tmp_path / name, "--pretrained", "tiny", *options) == expected
    out = tmp_path / "out"
    printed(capsys, tmp_path / name, "--pretrained", "tiny", *options, "--output-file", out)
    assert out.read_text("utf-8") == expected


def test_tables_that_cannot_be_scored(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """By definition: errors name the file, and the line or the option; nothing is printed."""
    table = tmp_path / "table.csv"
    for content, message in (
        ("text\nThe dog .\n", "table.csv: expected a table with one column sentence, found ['te"),
        ("sentence\nHello, you\n", "table.csv, line 2: expected 1 fields, as in the header, f"),
        ('n,sentence\n1,He .\n\n2," "\n', "table.csv, line 4: expected a value in the column s"),
    ):
        table.write_text(content)
        assert message in run(table, "--pretrained", "tiny")
        assert message in run(table, "--pretrained", "tiny", "--output-file", tmp_path / "out")
    table.write_text("sentence\nHe .\n")
    for option in ("--documents", "--running-text"):
        message = run(table, "--pretrained", "tiny", option)
        assert f"{option}: expected a text, not a table, found" in message
    assert capsys.readouterr().out == "" and not (tmp_path / "out").exists()


def test_errors(
    text: Path, tmp_path: Path, bilm_archive: str, capsys: pytest.CaptureFixture
) -> None:
    """By definition: one line that names the argument, the file or the line, and no output."""
    model, out = ["--archive-file", bilm_archive], tmp_path / "out"
    assert "expected one of a text, --pairs and --suites, found several or none" in run(*model)
    for several in (["--pairs", text], ["--suites", text]):
        assert "expected one of a text, --pairs and --suites" in run(text, *several, *model)
    assert "expected one of" in run("--pairs", text, "--suites", text, *model)
    assert "expected to write a new file" in run(text, *model, "--output-file", tmp_path)
    assert "--output-file: " in run(text, *model, "--output-file", tmp_path / "no" / "out")
    assert "expected one of --pretrained, --archive-file" in run(text)
    for kind in ("--pairs", "--suites"):
        carry = run(kind, text, *model, "--initial-state", "carry")
        assert f"--initial-state: expected zero or warm with {kind}" in carry
        for option in (
            *(["--entropy"], ["--base", "e"], ["--shard", "1/2"], ["--documents"], ["--rank"]),
            *(["--unknown-missing"], ["--running-text"]),
        ):
            message = f"{option[0]}: expected a text with them, found {kind}"
            assert message in run(kind, text, *model, *option)
    for option in ("--per-token", "--each-pair"):
        assert "expected --pairs with them, found a text" in run(text, *model, option)
        suites = run("--suites", text, *model, option)
        assert "expected --pairs with them, found --suites" in suites
    assert "expected a suite of SyntaxGym in JSON" in run("--suites", text, *model)
    for option in (["--shard", "1/2"], ["--running-text"]):
        message = run(text, *model, "--documents", *option)
        assert "--documents: expected neither --shard, which would divide documents" in message
    carry = run(text, *model, "--initial-state", "carry", "--shard", "1/2")
    assert "--shard: expected --initial-state zero or warm, found carry" in carry
    (tmp_path / "blank").write_text("the dog\n\nthe\n")
    message = run(tmp_path / "blank", *model, "--output-file", out)
    assert "blank, line 2: expected a sentence, found an empty line" in message
    assert "found an empty line" in run(tmp_path / "blank", *model)
    assert capsys.readouterr().out == ""
    (tmp_path / "pairs").write_text('{"sentence_good": "the dog"}\n')
    message = run("--pairs", tmp_path / "pairs", *model, "--output-file", out)
    assert "pairs, line 1: expected a JSON object with the sentences sentence_good" in message
    (tmp_path / "pairs").write_text("")
    assert "--pairs: expected at least one pair" in run("--pairs", tmp_path / "pairs", *model)
    assert not out.exists()


PAIRS = [
    ("the dog", "the stick", "one", "nouns"),  # the third differs only in a word that is unknown
    ("the dog .", "dog the .", "one", "nouns"),
    ("the apple .", "the pear .", "one", "nouns"),
    ("he threw", "he threw", "two", "verbs"),  # equal, which is a tie of known sentences
]


def test_pairs(
    bilm_archive: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Expected: the accuracies by hand from the sums of `LanguageModel.score`, each sentence
    alone, and the ties and unknown words as listed."""
    monkeypatch.setattr(pairs, "AT_ONCE", 2)
    names = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
    lines = [json.dumps(dict(zip(names, pair))) for pair in PAIRS]
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    files[0].write_text("\n".join(lines[:3]))
    files[1].write_text(lines[3])
    model = LanguageModel.from_archive(bilm_archive)
    better = []
    for pair in PAIRS:
        good, bad = (model.score(sentence) for sentence in pair[:2])
        forward = good.forward.sum() - bad.forward.sum()
        backward = good.backward.sum() - bad.backward.sum()
        better.append([x > 1e-4 for x in (forward, backward, forward + backward)])
    arguments = ["--pairs", *files, "--archive-file", bilm_archive]
    text = printed(capsys, *arguments, "--format", "jsonl")
    rows = {(row["level"], row["name"]): row for row in map(json.loads, text.splitlines())}
    levels = {("paradigm", "one"): [0, 1, 2], ("paradigm", "two"): [3]}
    levels |= {("phenomenon", "nouns"): [0, 1, 2], ("phenomenon", "verbs"): [3]}
    assert rows.keys() == levels.keys() | {("all", "all")}
    for key, numbers in {**levels, ("all", "all"): [0, 1, 2, 3]}.items():
        row, known = rows[key], [n for n in numbers if n != 2]
        assert row["pairs"] == len(numbers)
        assert row["unknown_pairs"] == len(numbers) - len(known)
        for d, name in enumerate(("forward", "backward", "both")):
            expected = 100 * np.mean([better[n][d] for n in numbers])
            assert row[name] == pytest.approx(expected, abs=0.01)
            assert row[f"{name}_ties"] == pytest.approx(100 * (3 in numbers) / len(numbers))
            of_known = 100 * np.mean([better[n][d] for n in known]) if known else None
            assert row[f"{name}_known"] == (of_known and pytest.approx(of_known, abs=0.01))
    table = list(csv.DictReader(io.StringIO(printed(capsys, *arguments))))
    assert {key: str(x) if x is not None else "" for key, x in rows["all", "all"].items()} == table[
        -1
    ]
    assert run(*arguments, "--output-file", tmp_path / "out", "--format", "jsonl") is None
    assert (tmp_path / "out").read_text() == text


@pytest.mark.parametrize("per_token", [False, True])
def test_each_pair(
    bilm_archive: str, tmp_path: Path, capsys: pytest.CaptureFixture, per_token: bool
) -> None:
    """Expected: the sums or means of `LanguageModel.score` of each sentence alone, and accuracies
    that are counted in this table."""
    names = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
    longer = ("he threw the stick to the dog .", "he threw", "two", "verbs")
    unknown = ("he threw the pear", "he threw the pear", "two", "verbs")
    lines = [dict(zip(names, pair)) for pair in (*PAIRS, longer, unknown)]
    (tmp_path / "pairs").write_text("\n".join(map(json.dumps, lines)))
    arguments = ["--pairs", tmp_path / "pairs", "--archive-file", bilm_archive]
    arguments += ["--per-token"] * per_token
    text = printed(capsys, *arguments, "--each-pair")
    assert [row["unknown_pair"] for row in csv.DictReader(io.StringIO(text))] == [
        *("FALSE", "FALSE", "TRUE", "FALSE", "FALSE", "FALSE")  # as base R reads them
    ]
    table = pandas.read_csv(io.StringIO(text))
    model = LanguageModel.from_archive(bilm_archive)
    assert table["paradigm"].tolist() == ["one"] * 3 + ["two"] * 3
    assert table["phenomenon"].tolist() == ["nouns"] * 3 + ["verbs"] * 3
    assert table["unknown_pair"].tolist() == [False, False, True, False, False, False]
    for kind in ("good", "bad"):
        sentences = [line[f"sentence_{kind}"] for line in lines]
        assert table[f"sentence_{kind}"].tolist() == sentences
        assert table[f"tokens_{kind}"].tolist() == [len(s.split()) for s in sentences]
        for direction in ("forward", "backward"):
            numbers = [getattr(model.score(sentence), direction) for sentence in sentences]
            expected = [x.mean() if per_token else x.sum() for x in numbers]
            np.testing.assert_allclose(table[f"{direction}_{kind}"], expected, atol=1e-5)
    accuracies = pandas.read_csv(io.StringIO(printed(capsys, *arguments))).iloc[-1]
    better = table["forward_good"] - table["forward_bad"] > 1e-4
    assert accuracies["forward"] == pytest.approx(100 * better.mean())
    jsonl = printed(capsys, *arguments, "--each-pair", "--format", "jsonl").splitlines()
    assert [json.loads(line)["forward_good"] for line in jsonl] == table["forward_good"].tolist()


def test_suites(bilm_archive: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Expected: the tables of the functions, in both formats; the items are written in addition to
    the accuracies, and only with --output-file."""
    sentences = {"a": ["the dog", "threw", ""], "b": ["the", "stick threw", "."]}
    for name, formulas in (("one", ["(1;%a%) > (1;%b%)", "1 > 0"]), ("two", ["(2;%a%) = 0"])):
        conditions = [
            {
                "condition_name": condition,
                "regions": [{"region_number": k, "content": x} for k, x in enumerate(regions)],
            }
            for condition, regions in sentences.items()
        ]
        suite = {
            "meta": {"name": name, "metric": "sum"},
            "predictions": [{"type": "formula", "formula": x} for x in formulas],
            "items": [{"item_number": 7, "conditions": conditions}],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(suite))
    arguments = ["--suites", tmp_path / "*.json", "--archive-file", bilm_archive]
    files = sorted(tmp_path.glob("*.json"))
    rows = suite_scores(LanguageModel.from_archive(bilm_archive), files)
    for kind in ("csv", "jsonl"):
        text = printed(capsys, *arguments, "--format", kind)
        out = tmp_path / f"items.{kind}"
        assert printed(capsys, *arguments, "--format", kind, "--output-file", out) == text
        for expected, found in ((rows, out.read_text()), (suite_accuracies(rows), text)):
            writer = TextTable(kind, list(expected[0]))
            columns = {key: [row[key] for row in expected] for key in expected[0]}
            assert found == writer.header + writer.text(columns)
    header, first, *_ = (tmp_path / "items.csv").read_text().splitlines()
    assert header.startswith("suite,item,condition,sentence,unknown,correct,formula_1,formula_2,")
    assert header.endswith("region_0,region_1,region_2")
    assert first.startswith("one,7,a,the dog threw,0,")


def test_means_of_several_sentences(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Expected: the means over the words and the ends of the sentences, which are scored apart. The
    perplexity of a text is by the same mean, and a sentence more changes the better one."""
    good, bad = "He ran. It rained.", "He ran and it rained ran."
    line = json.dumps({"sentence_good": good, "sentence_bad": bad})
    (tmp_path / "pairs").write_text(line)
    options = ["--pretrained", "tiny", "--raw", "--per-token", "--each-pair", "--format", "jsonl"]
    row = json.loads(printed(capsys, "--pairs", tmp_path / "pairs", *options))
    model = LanguageModel.from_pretrained("tiny")
    apart = {
        "good": model.score([["He", "ran", "."], ["It", "rained", "."]]),
        "bad": model.score(["He ran and it rained ran .".split()]),
    }
    for kind, scores in apart.items():
        for direction in ("forward", "backward"):
            numbers = np.hstack([getattr(x, direction) for x in scores])
            assert row[f"{direction}_{kind}"] == pytest.approx(numbers.mean(), abs=1e-5)
            perplexity = model.perplexity([{"good": good, "bad": bad}[kind]], raw=True)
            bits = np.log2(perplexity[f"{direction}_perplexity"])
            assert bits == pytest.approx(-numbers.mean(), abs=1e-5)
    assert row["forward_good"] == pytest.approx(-5.142, abs=1e-3)
