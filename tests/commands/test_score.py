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

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.commands import score
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora import suite_accuracies, suite_scores
from elmo_plugin.corpora.pairs import pair_accuracies, pair_scores
from elmo_plugin.corpora.score_table import read_scores
from elmo_plugin.corpora.writers import TextTable
from tests.conftest import ROOT
from tests.corpora.test_suites import suite

TEXT = ["he threw the stick to the dog .", "He", "the unheard-of\u00a0dog .", "to the dog"]


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


COLUMNS = "sentence,position,token,in_vocabulary,forward,backward"  # as R needs them
EVERY = ",forward_entropy,backward_entropy,surprisal,forward_rank,backward_rank"


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize(
    ("options", "settings", "columns", "given"),
    [
        ([], {}, COLUMNS + ",surprisal", {}),
        (["--initial-state", "carry"], {"initial_state": "carry"}, COLUMNS + ",surprisal", {}),
        (
            ["--entropy", "--rank", "--unknown-missing", "--base", "e", "--precision", "bf16"],
            {"precision": "bf16"},
            COLUMNS + EVERY,
            {"entropy": True, "rank": True, "unknown_missing": True, "base": "e"},
        ),
    ],
    ids=str,
)
def test_both_formats(options, settings, columns, given, text, bilm_archive, capsys, monkeypatch):
    """Expected: the numbers of `LanguageModel.score` for the sentences one by one in order, rounded
    to six places, for all of a sentence in JSON and for its words in CSV. Missing numbers are null
    in JSON and empty fields in CSV. Of a text without sentences, only the header."""
    monkeypatch.setattr(score, "AT_ONCE", 2)
    arguments = [text, "--archive-file", bilm_archive, *options]
    lines = [json.loads(x) for x in printed(capsys, *arguments, "--format", "jsonl").splitlines()]
    table = printed(capsys, *arguments)
    assert table.partition("\n")[0] == columns
    (text.with_name("table.csv")).write_text(table, "utf-8")
    data = read_scores(text.with_name("table.csv"))
    model = LanguageModel.from_archive(bilm_archive, **settings)
    expected = [model.score(sentence.split(), **given) for sentence in TEXT]
    for number, (line, scores) in enumerate(zip(lines, expected, strict=True)):
        fields = dict(scores.fields())
        assert line.pop("sentence") == number and line.keys() == fields.keys()
        assert line.pop("tokens") == fields["tokens"]
        for name, values in line.items():
            wanted = np.array(fields[name], float)
            np.testing.assert_allclose(np.array(values, float), wanted, atol=1e-5)
    assert data["token"].tolist() == [word for scores in expected for word in scores.tokens]
    for name in columns.split(",")[4:]:
        words = slice(1, None) if name.startswith("backward") else slice(-1)
        own = [getattr(x, name) for x in expected]
        wanted = np.hstack([x if name == "surprisal" else x[words] for x in own])
        assert bool(np.isnan(wanted).any()) == (bool(given) and "entropy" not in name)
        np.testing.assert_allclose(data[name], wanted, atol=1e-5)
    text.write_text("")
    assert printed(capsys, *arguments, "--format", "jsonl") == ""
    assert printed(capsys, *arguments) == columns + "\n"


DOCUMENTS = ["", "he threw the stick .", "the dog ran", "", "", "The dog .", "", "to the dog", ""]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_documents(tmp_path, capsys, monkeypatch, form):
    """Expected: the numbers of `LanguageModel.score` with a label for each document, and the lines
    in the file. A part of a run that can be resumed has whole documents, however small it is."""
    monkeypatch.setattr(score, "PART_SENTENCES", 1)
    (tmp_path / "text").write_text("\n".join(DOCUMENTS) + "\n")
    arguments = [tmp_path / "text", "--documents", "--pretrained", "tiny", "--format", form]
    whole = printed(capsys, *arguments)
    lines, labels = [1, 2, 5, 7], [1, 1, 5, 7]
    sentences = [DOCUMENTS[line].split() for line in lines]
    expected = LanguageModel.from_pretrained("tiny").score(sentences, documents=labels)
    if form == "jsonl":
        found = list(map(json.loads, whole.splitlines()))
        assert [(x["sentence"], x["document"]) for x in found] == [*zip(lines, labels)]
        for line, scores in zip(found, expected, strict=True):
            np.testing.assert_allclose(line["forward"], scores.forward, atol=1e-5)
            np.testing.assert_allclose(line["backward"], scores.backward, atol=1e-5)
    else:
        data = pandas.read_csv(io.StringIO(whole))
        assert dict(zip(data["sentence"], data["document"])) == dict(zip(lines, labels))
    assert run(*arguments, "--output-file", tmp_path / "out") is None
    assert (tmp_path / "out").read_text() == whole


MISSING_BY_NAME = ["None", "NA", "nan", "null", "N/A", "007", "1e5", "True", '"', "a,b"]
"""Words that look like missing values, numbers or quotes to a reader of CSV."""
PAGE = (ROOT / "docs" / "surprisal.md").read_text("utf-8")


@pytest.mark.parametrize("reader", ["our function", "the call on the page"])
def test_words_in_a_table_stay_words(tmp_path, capsys, monkeypatch, reader):
    """By definition: the tokens are those of the text, and the missing numbers those of the words
    that the softmax lacks. The call on the page, which needs only pandas, is run as it is there."""
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(MISSING_BY_NAME), "the NA dog", "null"]
    Path("TEXT").write_text("\n".join(lines) + "\n")
    options = ["--pretrained", "tiny", "--unknown-missing"]
    printed(capsys, "TEXT", *options, "--output-file", "SCORES.csv")
    (call,) = re.findall(r"^words = (pandas\.read_csv\(.*\))$", PAGE, re.MULTILINE)
    found = read_scores("SCORES.csv") if reader == "our function" else eval(call)
    assert found["token"].tolist() == " ".join(lines).split()
    assert [found[name].dtype.kind for name in ("sentence", "position")] == ["i", "i"]
    assert found["in_vocabulary"].dtype == bool
    with Path("SCORES.csv").open(encoding="utf-8", newline="") as file:  # as base R reads them
        written = [row["in_vocabulary"] for row in csv.DictReader(file)]
    assert written == [str(known).upper() for known in found["in_vocabulary"]]
    model = LanguageModel.from_pretrained("tiny")
    scores = model.score(pandas.Series(lines), unknown_missing=True)
    expected = np.hstack([x.surprisal for x in scores])
    assert 0 < np.isnan(expected).sum() < len(expected)
    np.testing.assert_allclose(found["surprisal"].to_numpy(), expected, atol=1e-5)


def test_other_files_are_no_table_of_scores(text: Path, tmp_path: Path) -> None:
    """By definition: an error names the file. tests/text/test_tables.py has other tables."""
    out = tmp_path / "scores.jsonl"
    assert run(text, "--pretrained", "tiny", "--format", "jsonl", "--output-file", out) is None
    with pytest.raises(InputError, match=r"scores\.jsonl: expected a table with one column token"):
        read_scores(out)
    (tmp_path / "empty.csv").write_text("sentence,token\n")
    assert read_scores(tmp_path / "empty.csv").shape == (0, 2)
    with pytest.raises(FileNotFoundError, match="gone: expected a table of scores, found no such"):
        read_scores(tmp_path / "gone")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["table.csv", "table.tsv", "TABLE.CSV.gz", "table.tsv.xz"])
@pytest.mark.parametrize("options", [(), ("--raw",), ("--shard", "2/2"), ("--format", "jsonl")])
def test_the_sentences_of_a_table(tmp_path, capsys, name, options):
    """Expected: what is written for the text of the column, whose lines have the numbers of the
    rows. pandas writes the table."""
    sentences = ['He threw, "it" .', "the dog ran .", "He\u00a0left ."]
    data = pandas.DataFrame({"item": [1, 2, 3], "sentence": sentences, "note": ["a,b", None, "c"]})
    data.to_csv(tmp_path / name, index=False, sep="," if "csv" in name.lower() else "\t")
    (tmp_path / "text").write_text("\n".join(sentences) + "\n", "utf-8")
    expected = printed(capsys, tmp_path / "text", "--pretrained", "tiny", *options)
    assert printed(capsys, tmp_path / name, "--pretrained", "tiny", *options) == expected


KINDS = "--pairs", "--suites"
OF_A_TEXT = "--entropy --base=e --shard=1/2 --documents --rank --unknown-missing --running-text"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "expected one of a text, --pairs and --suites, found several or none"),
        ("text --pairs text", "expected one of a text, --pairs and --suites"),
        ("text --output-file out.csv.gz", "--output-file: expected a name without .gz, .xz or"),
        ("--pairs text --suites text", "expected one of a text, --pairs and --suites"),
        ("text --output-file .", "--output-file: expected a file to write, found '.'"),
        ("text --output-file -", "--output-file: expected a file to write, found '-'"),
        ("--pairs text --output-file /dev/null", "expected a file to write, found '/dev/null'"),
        ("text --output-file no/out", "--output-file: "),
        ("text --per-token", "expected --pairs with them, found a text"),
        ("text --each-pair", "expected --pairs with them, found a text"),
        ("--suites text --per-token", "expected --pairs with them, found --suites"),
        ("--suites text", "expected a suite of SyntaxGym in JSON"),
        ("--pairs text --output-file out", "text, line 1: expected a JSON object"),
        ("text --documents --shard 1/2", "--documents: expected neither --shard"),
        ("text --documents --running-text", "--documents: expected neither --shard"),
        ("text --initial-state carry --shard 1/2", "--shard: expected the initial state zero or w"),
        ("blank", "blank, line 2: expected a sentence, found an empty line"),
        ("blank --output-file out", "blank, line 2: expected a sentence, found an empty line"),
        ("table.csv", "table.csv, line 4: expected a value in the column sentence"),
        ("table.csv --output-file out", "table.csv, line 4: expected a value in the column"),
        ("table.csv --documents", "--documents: expected a text, not a table, found"),
        ("table.csv --running-text", "--running-text: expected a text, not a table, found"),
        ("--pairs text --initial-state carry", "--initial-state: expected zero or warm with --p"),
        ("--suites text --initial-state carry", "--initial-state: expected zero or warm with --s"),
    ],
)
def test_errors(arguments, message, text, capsys, monkeypatch):
    """By definition: one line that names the argument, the file or the line, and no output."""
    monkeypatch.chdir(text.parent)
    Path("blank").write_text("the dog\n\nthe\n")
    Path("table.csv").write_text('n,sentence\n1,He .\n\n2," "\n')
    assert message in run(*arguments.split(), "--pretrained", "tiny")
    assert capsys.readouterr().out == "" and not Path("out").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OF_A_TEXT.split())
def test_options_of_a_text(kind: str, option: str, text: Path) -> None:
    """By definition: what pairs and suites do not have is an error and not ignored."""
    name = option.partition("=")[0]
    message = run(kind, text, option, "--pretrained", "tiny")
    assert f"{name}: expected a text with them, found {kind}" in message


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("raw", [False, True])
def test_tables_of_pairs_and_suites(form, raw, bilm_archive, tmp_path, capsys):
    """Expected: the tables of the functions. The items of suites are written in addition to the
    accuracies, and only with --output-file."""
    pairs = [("the dog", "the stick"), ("the apple", "the pear"), ("He threw it.", "He it.")]
    lines = [json.dumps({"sentence_good": x, "sentence_bad": y}) for x, y in pairs]
    (tmp_path / "pairs").write_text("\n".join(lines))
    item = {"a": ["the dog", "threw", ""], "b": ["the", "stick threw", "."]}
    for name, formulas in (("one", ["(1;%a%) > (1;%b%)", "1 > 0"]), ("two", ["(2;%a%) = 0"])):
        block = suite(formulas, [item], name=name)
        (tmp_path / f"{name}.json").write_text(json.dumps(block))
    model = LanguageModel.from_archive(bilm_archive)
    scores = pair_scores(model, [tmp_path / "pairs"], raw, per_token=raw)
    items = suite_scores(model, sorted(tmp_path.glob("*.json")), raw)
    options = ["--archive-file", bilm_archive, "--format", form, *["--raw"] * raw]
    of_pairs = ["--pairs", tmp_path / "pairs", *options, *["--per-token"] * raw]
    of_suites = ["--suites", tmp_path / "*.json", *options]
    out = ["--output-file", tmp_path / "out"]

    def written(rows: list[dict[str, Any]]) -> str:
        writer = TextTable(form, list(rows[0]))
        return writer.header + writer.text({key: [row[key] for row in rows] for key in rows[0]})

    assert printed(capsys, *of_pairs) == written(pair_accuracies(scores))
    assert printed(capsys, *of_pairs, "--each-pair") == written(scores)
    assert printed(capsys, *of_pairs, "--each-pair", *out) == ""
    assert (tmp_path / "out").read_text() == written(scores)
    (tmp_path / "out").unlink()
    accuracies = written(suite_accuracies(items))
    assert printed(capsys, *of_suites) == printed(capsys, *of_suites, *out) == accuracies
    assert (tmp_path / "out").read_text() == written(items)
    if form == "csv":
        assert {"TRUE", "FALSE"} <= {*written(scores).replace("\n", ",").split(",")}  # as R needs
        header, first, *_ = written(items).splitlines()
        names = "suite,item,condition,sentence,unknown,correct,formula_1,formula_2,region_1,"
        assert header == names + "region_2,region_3"
        assert first.startswith("one,1,a,the dog threw,0,")
