"""These tests run the predictors `bilm` and `elmo` on the archive of a tiny language model, and
`allennlp predict` with them, which has an output for each line."""

import io
import json
import math
import os
import re
import sys

import numpy
import pytest
import torch
from allennlp.commands.predict import _PredictManager
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.plugin.commands import _message, run_allennlp
from tests.conftest import allennlp, write_file

TOKENS = ["he", "threw", "unheard-of", "dog", "."]
SENTENCE = " ".join(TOKENS)
SOME = {"tokens": ["the", "dog"]}


@pytest.fixture(scope="module")
def bilm(bilm_archive):
    return Predictor.from_path(bilm_archive)


def test_forms_of_input(bilm):
    """The same sentence is given as JSON with tokens, as JSON with a sentence, and as a line of
    text."""
    expected = bilm.predict_json({"tokens": TOKENS})
    assert bilm.predict_json({"sentence": SENTENCE}) == expected
    for line in (f'{{"sentence": "{SENTENCE}"}}\n', f"  {SENTENCE}\n"):
        assert bilm.predict_json(bilm.load_line(line)) == expected
    assert bilm.load_line("{ 1 , 2 }\n") == {"sentence": "{ 1 , 2 }"}
    with pytest.raises(InputError, match=r"^expected JSON, found "):
        bilm.load_line('{"sentence": "He ran ."\n')
    for wrong in ({}, {"tokens": "he"}, {"sentence": ["he"]}, {"tokens": [1]}):
        with pytest.raises(InputError, match=r"^expected .*, found \{.*\}$"):
            bilm.predict_json(wrong)
    for tokens in (["New\tYork"], ["he", ""]):
        with pytest.raises(InputError, match=r"^tokens: expected tokens, which are words"):
            bilm.predict_json({"tokens": tokens})


def test_unknown_words_are_warned_of_once(bilm_archive, said):
    """A file is predicted in batches: by definition, one warning for all."""
    predictor = Predictor.from_path(bilm_archive)
    for tokens in (["zyx", "xyz", "yzx"], ["zzz"]):
        predictor.predict_batch_json([{"tokens": tokens}] * 2)
    assert sum("are unknown to the model" in x for x in said()) == 1


@pytest.mark.parametrize("name", ["bilm", "elmo"])
def test_models_of_another_type_are_refused(name):
    """As `predict TASK --predictor elmo` gives them, which the error answers with a command."""
    message = "expected a model of type bilm, found Linear; python -m elmo_plugin elmo"
    with pytest.raises(InputError, match=message):
        Predictor.by_name(name)(torch.nn.Linear(1, 1), None)


def test_words_of_any_language_are_readable(bilm, monkeypatch):
    """The line is JSON in UTF-8, in which words stand as they were given, except for what UTF-8
    cannot hold; and those that the terminal lacks are escapes of JSON."""
    tokens = ["naïve", "犬", "a\ud800b"]
    line = bilm.dump_line(bilm.predict_json({"tokens": tokens}))
    assert '["naïve", "犬", "a\\ud800b"]' in line
    assert line.encode("utf-8").endswith(b"}\n") and line.count("\n") == 1
    assert json.loads(line)["tokens"] == tokens
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    line = bilm.dump_line({"tokens": tokens})
    assert line == '{"tokens": ["naïve", "\\u72ac", "a\\ud800b"]}\n'


@pytest.mark.parametrize("name", ["bilm", "elmo"])
@pytest.mark.parametrize("empty", [{"tokens": []}, {"sentence": ""}, {"sentence": " \u3000"}])
def test_a_sentence_without_tokens(bilm_archive, name, empty):
    """There is nothing to predict, which is an error alone and in a batch, as a blank line is."""
    predictor = Predictor.from_path(bilm_archive, name)
    for predict in (predictor.predict_json, lambda x: predictor.predict_batch_json([SOME, x])):
        with pytest.raises(InputError, match=r"^expected at least one token, found \{.*\}$"):
            predict(empty)


def test_words_that_the_vocabulary_lacks(bilm):
    """By hand, from the ten words of the archive. A word that the vocabulary lacks has the
    probability of `<UNK>`, which is the same for each of them; `<UNK>` itself is not a word."""
    tokens = ["he", "zyxqvish", "threw", "He", "<UNK>", "<S>", "."]
    [found, _] = bilm.predict_batch_json([{"tokens": tokens}, SOME])
    assert found["in_vocabulary"] == [True, False, True, False, False, True, True]
    assert list(found)[:2] == ["tokens", "in_vocabulary"]
    unknown, literal = (
        bilm.predict_json({"tokens": ["he", word]})["forward_log_probabilities"][1]
        for word in ("zyxqvish", "<UNK>")
    )
    assert unknown == pytest.approx(literal)


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("initial_state, precision", [("zero", "bf16"), ("carry", "fp32")])
def test_vectors_as_the_model_reads(bilm_archive, initial_state, precision):
    """The expected vectors are those of `Elmo` with the `initial_state` and the precision of the
    archive's model, and the log probabilities and substitutes those of `LanguageModel`, which
    tests/elmo/test_language_model.py compares with the oracle. The predictors do not change the
    model itself."""
    overrides = {"model.initial_state": initial_state, "model.precision": precision}
    archive = load_archive(bilm_archive, overrides=json.dumps(overrides))
    elmo, bilm = (Predictor.from_archive(archive, name) for name in ("elmo", "bilm"))
    vectors, scores = (
        kind.from_archive(bilm_archive, initial_state=initial_state, precision=precision)
        for kind in (Elmo, LanguageModel)
    )
    for tokens in (TOKENS, SOME["tokens"], TOKENS):
        [found] = elmo.predict_batch_json([{"tokens": tokens}])
        assert found["tokens"] == tokens
        numpy.testing.assert_array_equal(
            numpy.float32(found["layers"]), vectors.embed(tokens, layer="all")
        )
        found = bilm.predict_json({"tokens": tokens})
        words = scores.substitutes(tokens, k=5)
        assert found["substitutes"] == [[word._asdict() for word in place] for place in words]
        expected = scores.score(tokens, base="e")
        both = numpy.float64([*expected.forward, *expected.backward]).tolist()
        assert found["forward_log_probabilities"] + found["backward_log_probabilities"] == both
        assert found["perplexity"] == pytest.approx(math.exp(-sum(both) / len(both)))
    assert all(parameter.requires_grad for parameter in archive.model.parameters())


LINES = ["he threw the stick", '{"tokens": ["the", "dog"]}', "a\u2028b\rc", "{ 1 }", "\ufeffto"]
OUTPUTS = [["he", "threw", "the", "stick"], ["the", "dog"], ["a", "b", "c"], ["{", "1", "}"]]
OUTPUTS += [["\ufeffto"]]


def predict(bilm_archive: str, name: str, text: object, *arguments: object) -> None:
    allennlp("predict", bilm_archive, text, "--predictor", name, "--silent", *arguments)


def give_stdin(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))


@pytest.mark.parametrize("source", ["file", "stdin", "pipe"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_each_line_has_an_output(bilm_archive, tmp_path, monkeypatch, source, batch_size) -> None:
    """By hand: a line feed ends a line, and no other character does. Windows saves a byte order
    mark at the beginning of a text; elsewhere U+FEFF is a character."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_bytes("".join(f"{line}\n" for line in LINES).encode("utf-8-sig"))
    give_stdin(monkeypatch, text.read_bytes())
    path: object = {"file": text, "stdin": "-", "pipe": ""}[source]
    if source == "pipe":
        pipe, end = os.pipe()
        os.write(end, text.read_bytes())
        os.close(end)
        path = f"/dev/fd/{pipe}"
    predict(bilm_archive, "bilm", path, "--output-file", out, "--batch-size", batch_size)
    assert [json.loads(line)["tokens"] for line in out.read_text().splitlines()] == OUTPUTS


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", ["bilm", "elmo"])
@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        ("\n", 1, "expected a sentence, found an empty line"),
        ("he threw\nthe dog\n \u3000\t\n.\n", 3, "expected a sentence, found an empty line"),
        ("he threw\n\n", 2, "expected a sentence, found an empty line"),
        ('he threw\n{"tokens": []}\n', 2, "expected at least one token, found"),
        ('he threw\n{"sentence\n', 2, "expected JSON, found"),
        ('{"sentence":' + "[" * 100_000, 1, "expected JSON, found"),
        (b"he threw\nthe \xff dog\n", 2, ".* 0xff"),
    ],
)
def test_a_line_without_a_sentence(
    bilm_archive, tmp_path, monkeypatch, name, source, text, number, message
) -> None:
    """The error names the file and the line, and not the archive."""
    file = write_file(tmp_path / "text", text)
    give_stdin(monkeypatch, file.read_bytes())
    path, shown = ("-", "stdin") if source == "stdin" else (file, file)
    with pytest.raises(InputError, match=rf"^{shown}, line {number}: {message}"):
        predict(bilm_archive, name, path, "--output-file", os.devnull, "--batch-size", 2)


def test_a_table_is_refused_by_its_name(bilm_archive, tmp_path) -> None:
    """As by the other commands (tests/text/test_other_formats.py), because its lines are none."""
    (table := tmp_path / "stimuli.csv").write_text("item,sentence\n1,he threw\n")
    with pytest.raises(InputError, match=r"stimuli\.csv: expected text, .* the name of a table"):
        predict(bilm_archive, "bilm", table, "--output-file", os.devnull)


def test_an_error_names_the_archive(bilm_archive, monkeypatch) -> None:
    """AllenNLP's own errors do not."""
    monkeypatch.setattr(sys, "argv", [])
    message = run_allennlp(["predict", bilm_archive, "-", "--predictor", "nonsense"])
    assert f"{bilm_archive}: " in str(message) and "nonsense" in str(message)


def test_the_dataset_reader_does_not_skip_lines(bilm_archive, tmp_path) -> None:
    """In training, a blank line is the border of two documents; here it would have no output."""
    out = tmp_path / "out"
    (tmp_path / "text").write_text("the dog\nhe threw\n")
    arguments = ("--use-dataset-reader", "--output-file", out)
    predict(bilm_archive, "bilm", tmp_path / "text", *arguments)
    assert len(out.read_text().splitlines()) == 2
    (tmp_path / "text").write_text("the dog\n\nhe threw\n")
    with pytest.raises(InputError, match=r"text, line 2: expected a sentence"):
        predict(bilm_archive, "bilm", tmp_path / "text", *arguments)


class Echo(Predictor):
    """Predicts its input."""

    predict_json = staticmethod(dict)


@pytest.mark.parametrize("last, says", zip("2{\udcff", ["Type", "expected JSON", "expected UTF-8"]))
def test_lines_of_other_predictors(tmp_path, capsys, monkeypatch, last, says) -> None:
    """AllenNLP skips blank lines. An error names the line: a number is not an object, a brace is
    not JSON, and a byte not UTF-8. Windows writes a byte order mark and carriage returns. Standard
    input is closed in some programs."""
    monkeypatch.setattr(sys, "stdin", None)
    lines = f'\ufeff{{"a": 1}}\r\n\n \n{{"a": 2}}\n\n{last}\n'.encode(errors="surrogateescape")
    text = write_file(tmp_path / "text", lines)
    with pytest.raises((TypeError, InputError)) as error:
        _PredictManager(Echo(torch.nn.Linear(1, 1), None), str(text), None, 1, True, False).run()
    assert _message(error.value).startswith(f"{text}, line 6: {says}")
    assert re.findall("prediction: +(.*)", capsys.readouterr().out) == ['{"a": 1}', '{"a": 2}']
