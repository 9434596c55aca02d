"""
Long runs of the commands `elmo`, `score` and `uses`: shards, and which run is the same, so that it
is resumed, and which is another one, which is refused. tests/corpora/test_parts.py has how a run is
resumed.
"""

import csv
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora import dump
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.text import forms, raw_text
from elmo_plugin.text.sentence import Sentence
from tests.conftest import BiLMFiles

TEXT = "The dog threw the stick .\nDogs and a dog ran .\nthe stick\n"
TINY = ["--pretrained", "tiny"]
COMMANDS = {
    "elmo": ["text", "out", "--layer", "2"],
    "score": ["text", "--output-file", "out"],
    "uses": ["text", "words", "out"],
}
each_command = pytest.mark.parametrize("command", COMMANDS)
OTHERS: dict[str, list[tuple[str, str]]] = {
    "elmo": [
        ("--layer 0", "layers"),
        ("--pool mean", "pool"),
        ("--float16", "type of numbers"),
        ("--precision int8", "(precision|model)"),
        ("--raw", "raw"),
        ("--initial-state zero", "model"),
    ],
    "score": [
        ("--entropy", "entropy"),
        ("--rank", "rank"),
        ("--unknown-missing", "unknown_missing"),
        ("--documents", "documents"),
        ("--base e", "base"),
        ("--format jsonl", "format"),
        ("--raw", "raw"),
    ],
    "uses": [("--layer 0", "layer"), ("--most 1", "most"), ("--seed 1", "seed"), ("--raw", "raw")],
}
"""Options of each command, and how the error names what is other."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has a text, words and texts to compare it with."""
    monkeypatch.chdir(tmp_path)
    texts = {"text": TEXT, "words": "dog\tdog Dogs\n", "other": TEXT + "ran and\n"}
    texts["third"] = "dog a ran threw the the the the and and\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(command: str, *options: object, model: list[str] = TINY) -> Any:
    return run_program(command, [*COMMANDS[command], *map(str, options), *model])


def interrupted(command: str, *options: object, model: list[str] = TINY) -> None:
    """Interrupt a command before the output gets its name, so that all parts are there."""
    rename = os.replace

    def replaced(source: Any, target: Any) -> None:
        if Path(target).name == "out":
            raise KeyboardInterrupt
        rename(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replaced)
        assert run(command, *options, model=model) == 130 and not Path("out").exists()


def resumed(command: str, *options: object, model: list[str] = TINY) -> bytes:
    """What a command writes that computes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Elmo, "embed_rows", None)
        patch.setattr(LanguageModel, "score", None)
        assert run(command, *options, model=model) is None
    return Path("out").read_bytes()


@each_command
def test_other_runs_are_refused(command: str, bilm_archive: str, folder: Path) -> None:
    """By definition: other options, another model, another text or other words are another run. The
    same command then computes nothing, and its file is that of an uninterrupted run."""
    assert run(command) is None
    whole = Path("out").read_bytes()
    Path("out").unlink()
    before = sorted(folder.iterdir())
    interrupted(command)
    for option, name in OTHERS[command]:
        message = run(command, *option.split())
        assert re.search(f"expected the {name} of the interrupted run, ", message)
    message = run(command, model=["--archive-file", bilm_archive])
    assert re.search("expected the (model|biLM) of the interrupted run, ", message)
    for file, name in (("text", "text of sentences 1 to"), ("words", "words of")):
        if file in COMMANDS[command]:
            content = Path(file).read_text()
            Path(file).write_text(content.replace("dog", "stick", 1))
            assert f"expected the {name}" in run(command)
            Path(file).write_text(content)
    assert resumed(command) == whole
    Path("out").unlink()
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("form", ["zip", "options and weights"])
def test_another_form_of_the_model(form: str, bilm_files: BiLMFiles, folder: Path) -> None:
    """By definition: the same model in another form is the same run."""
    files = [f"--{kind}-file={path}" for kind, path in zip(("options", "weight"), bilm_files)]
    archive = ["--archive-file", str(Path(bilm_files.options_file).parent)]
    if form == "zip":
        name = shutil.make_archive(str(folder / "model"), "zip", archive[1])
        archive, files = files, ["--archive-file", name]
    interrupted("elmo", model=archive)
    resumed("elmo", model=files)


def test_another_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: it changes the rounding only, which the file records if a part is computed
    again, and under `carry` which sentence a row continues."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    interrupted("elmo", "--batch-size", 2)
    max(Path(".out.parts").glob("*.part"), key=lambda x: x.stat().st_mtime_ns).unlink()
    assert run("elmo", "--batch-size", 1) is None
    with h5py.File("out") as file:
        recorded = json.loads(file.attrs["computed_with"])
    assert [(x["from sentence"], x["batch size"]) for x in recorded] == [(1, 2), (3, 1)]
    Path("out").unlink()
    interrupted("elmo", "--batch-size", 2, "--initial-state", "carry")
    message = run("elmo", "--batch-size", 1, "--initial-state", "carry")
    assert "expected the batch size of the interrupted run, 2, found 1" in message


def test_other_control_words() -> None:
    """By definition: other control words are another run, also if they are others because the other
    text is."""
    controls = "--controls", 1, "--compared-with", "other"
    interrupted("uses", *controls)
    for options in (("--controls", 2, *controls[2:]), (*controls[:3], "third")):
        assert "expected the control words of the interrupted run" in run("uses", *options)
    assert "expected the words of the interrupted run" in run("uses")
    resumed("uses", *controls)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("package", ["nltk", "nupunkt"])
@pytest.mark.parametrize("option", ["--raw", "--running-text"])
@each_command
def test_another_splitter(command, option, package, monkeypatch):
    """By definition: an interrupted run is not mixed with the tokens of another version, also if
    these are other ones; the error has both versions, and says nothing of the text."""
    interrupted(command, option)
    module, split = sys.modules[package], raw_text.split_text
    versions = rf"splitters of the interrupted run, .*{package} {module.__version__}.*, found"

    def without_last(*text: Any, **place: Any) -> list[Sentence]:
        return [_without_last(x) for x in split(*text, **place)]

    with monkeypatch.context() as patch:
        patch.setattr(module, "__version__", "0.1")
        patch.setattr(raw_text, "split_text", without_last)
        patch.setattr(forms, "split_text", without_last)
        assert re.search(rf"expected the {versions} .*{package} 0\.1", str(run(command, option)))
    resumed(command, option)


def _without_last(x: Sentence) -> Sentence:
    if len(x.tokens) < 2:
        return x
    return replace(x, tokens=x.tokens[:-1], spans=x.spans[:-1], words=x.words[:-1])


def numbers(command: str, *options: str) -> dict[tuple, np.ndarray]:
    """The numbers that a command writes, by their place."""
    assert run(command, *options) is None
    found: dict[tuple, Any] = {}
    if command == "elmo":
        with h5py.File("out") as file:
            found = {(x,): file[x][()] for x in file if x != "sentence_to_index"}
    elif command == "score":
        for row in csv.DictReader(Path("out").open()):
            place = row["sentence"], row["position"], row["token"]
            found[place] = np.array([float(row["forward"]), float(row["backward"])])
    else:
        for row in read_uses("out").itertuples():
            found[row.word, row.token, row.sentence, row.position, row.text] = row.vector
    Path("out").unlink()
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("option", ["--precision=fp32", "--running-text", "--most=2"])
@each_command
def test_shards_are_the_whole(command: str, option: str) -> None:
    """By definition: all shards together have each sentence once, under its number in the text, and
    a sample of uses is that of the whole text."""
    options = [] if option == "--most=2" and command != "uses" else [option]
    whole = numbers(command, *options)
    shards = [numbers(command, *options, "--shard", f"{k}/2") for k in (1, 2)]
    assert all(0 < len(shard) < len(whole) for shard in shards)
    assert len(shards[0]) + len(shards[1]) == len(whole)
    for place, found in (shards[0] | shards[1]).items():
        np.testing.assert_allclose(found, whole[place], atol=1e-5)


@each_command
def test_raw_warns_of_wrapped_lines(command: str, caplog: pytest.LogCaptureFixture) -> None:
    """By definition: one warning that names the option, and none for running text."""
    Path("text").write_text("The dog drank the cold\nwater. It was\nold.\nA dog! It\nran .\n")
    for option in ("--running-text", "--raw"):
        assert run(command, option) is None
        Path("out").unlink()
        messages = [x for x in caplog.messages if "--running-text" in x]
        assert len(messages) == (option == "--raw")
    assert messages[0].startswith("3 of 5 lines begin in lower case")
