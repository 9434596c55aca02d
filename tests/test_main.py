"""`python -m elmo_plugin` with configs, archives and arguments that have a fault."""

import contextlib
import io
import json
import logging
import re
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from allennlp.common.util import SigTermReceived
from allennlp.training import GradientDescentTrainer

from elmo_plugin.__main__ import run
from elmo_plugin.commands.runner import PROGRAM
from elmo_plugin.version import VERSION
from tests.conftest import ROOT, python, write_file
from tests.plugin.models.test_training import config
from tests.test_pretrained import install_model

VALUES: list[Any] = [None, "", "16", "x", [], ["x"], {}, {"type": "x"}, -1, 0, 1.5, True, [[1]]]


def ended(*arguments: str) -> tuple[int | str | None, str]:
    """How a command ended, and what it printed."""
    printed = io.StringIO()
    before = logging.root.handlers[:]
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            end = run(arguments)
        except SystemExit as usage:
            end = usage.code
    logging.root.handlers[:] = before
    return end, printed.getvalue()


def assert_one_line(end: int | str | None, printed: str) -> None:
    assert "Traceback" not in printed
    if isinstance(end, str):
        assert end.startswith(f"{PROGRAM}: ") and len(end.splitlines()) == 1, end


def places(block: Any, path: tuple = ()) -> list[tuple]:
    """The paths of all values in a config."""
    items = block.items() if isinstance(block, dict) else enumerate(block)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def with_a_fault(params: dict[str, Any], random: Random) -> tuple:
    """Replaces, removes or renames a value; returns its path."""
    path = random.choice(places(params))
    *parents, key = path
    block: Any = params
    for parent in parents:
        block = block[parent]
    kind = random.choice(["replace", "replace", "replace", "remove", "rename"])
    if kind == "replace":
        block[key] = random.choice(VALUES)
    elif kind == "remove" or isinstance(block, list):
        del block[key]
    else:
        block[f"{key}s"] = block.pop(key)
    return path


def small_config(cache: Path) -> dict[str, Any]:
    params = config(cache).as_dict()
    params["trainer"]["num_epochs"] = 1
    del params["trainer"]["callbacks"]
    params["trainer"]["checkpointer"] = {"type": "bilm", "save_every_num_seconds": None}
    return params


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    return small_config(tmp_path / "cache")


def train(folder: Path, params: dict[str, Any], *options: str, run: str = "run") -> tuple:
    """How `train` ended with this config, and what it printed."""
    file = write_file(folder / "config.json", json.dumps(params))
    return ended("train", str(file), "-s", str(folder / run), *options)


def fails_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def test_configs_with_a_fault(tmp_path, fuzz, monkeypatch):
    """By definition: a config that cannot be used ends in one line, which names the config. Whether
    a fault shows before the training does not depend on its length, so that it ends after a
    batch."""
    monkeypatch.setenv("ALLENNLP_LOG_LEVEL", "ERROR")
    monkeypatch.chdir(tmp_path)  # a path may be "x"
    batches = GradientDescentTrainer.batch_outputs

    class Enough(Exception):
        pass

    def one_batch(self, *arguments, **kwargs):
        batches(self, *arguments, **kwargs)
        raise Enough("one batch")

    monkeypatch.setattr(GradientDescentTrainer, "batch_outputs", one_batch)
    n_errors = n_keys = 0
    for number, random in enumerate(fuzz.cases(50)):
        params = small_config(tmp_path / "cache")
        path = with_a_fault(params, random)
        end, printed = train(tmp_path, params, "-f")
        assert_one_line(end, printed)
        assert end is not None
        if isinstance(end, str) and "Enough: one batch" not in end:
            assert str(tmp_path / "config.json") in end, f"case {number}, {path}: {end}"
            n_errors += 1
            n_keys += any(str(key) in end for key in path[-2:])
    assert n_keys > 0.9 * n_errors > 0


def test_the_installed_models(tmp_path, monkeypatch):
    """Without a command or as help, the help and then the models of the package and of a
    distribution that names one by its entry point."""
    install_model(tmp_path, "other", "other")
    monkeypatch.syspath_prepend(str(tmp_path))
    for arguments in ([], ["-h"], ["--help"]):
        end, printed = ended(*arguments)
        assert end is None and "bilm-encode" in printed
        last = printed.splitlines()[-1]
        assert last.startswith("Installed models: ") and last.endswith("other, small, tiny")


def test_the_version():
    """That of this package, and not AllenNLP's, whose program has the same option."""
    assert ended("--version") == (None, f"elmo_plugin {VERSION}\n")


ARGUMENTS = ["train", "evaluate", "predict", "elmo", "bilm-encode", "bilm-export", "bilm-import"]
ARGUMENTS += ["elmo-mix", "uses", "elmo-configs", "CONFIG", "ARCHIVE", "TEXT", "OUT"]
ARGUMENTS += ["nothing", "", "-", "-s", "-o", "{", "{}", '{"a": 1}', "--cuda-device", "0", "-1"]
ARGUMENTS += ["--archive-file", "--pretrained", "tiny", "--top", "--all", "--recover"]
ARGUMENTS += ["--batch-size", "--output-file", "--help", "--weights-file", "--predictor", "x"]


def test_arguments_with_a_fault(tmp_path, fuzz, monkeypatch, params, bilm_archive):
    """By definition: arguments that cannot be used end in one line, or with the usage."""
    monkeypatch.setenv("ALLENNLP_LOG_LEVEL", "ERROR")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n")))
    monkeypatch.chdir(tmp_path)
    for random in fuzz.cases(30):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        (tmp_path / "config.jsonnet").write_text(json.dumps(params))
        (tmp_path / "text.txt").write_text("the dog\nhe threw the stick .\n")
        known = {"CONFIG": "config.jsonnet", "ARCHIVE": bilm_archive, "TEXT": "text.txt"}
        arguments = random.choices(ARGUMENTS, k=random.randrange(1, 7))
        arguments[0] = random.choice(ARGUMENTS[:10])
        end, printed = ended(*(known.get(argument, argument) for argument in arguments))
        assert_one_line(end, printed)


FILES: dict[str, str | bytes] = {
    "text.txt": "the dog\nhe threw the stick .\n",
    "EMPTY": "A sentence .\n\nAnother .\n",
    "LATIN1": "Un café .\n".encode("latin-1"),
}
SLIPS = {
    "elmo TEXT OUT --all --pretrained tiny --cuda-device 7": "--cuda-device: expected -1.*found 7",
    "elmo nothing.txt OUT --top --pretrained tiny": r"nothing\.txt",
    "elmo EMPTY OUT --all --archive-file ARCHIVE": r"^python -m elmo_plugin: EMPTY, line 2: exp",
    "evaluate TEXT TEXT": r"text\.txt: expected a model\.tar\.gz or the folder of a training run",
    "evaluate pretrained://tiny nothing.txt": r"nothing\.txt",
    "evaluate ARCHIVE TEXT,TEXT --output-file OUT -o LOADER": "The number of `metrics_output_file`",
    'evaluate ARCHIVE TEXT -o {"a.b":1}': "overrides dict contains unused keys: .'a.b'.",
    "evaluate FOREIGN TEXT": r"foreign\.tar\.gz",
    "evaluate CUT TEXT": r"cut\.tar\.gz: expected a model\.tar\.gz or the folder of .*, found C",
    "predict ARCHIVE .": r"^python -m elmo_plugin: \.: expected a file, found a folder",
    "predict ARCHIVE nothing.txt": r"nothing\.txt",
    "predict ARCHIVE LATIN1": "LATIN1, line 1: expected UTF-8, found the byte 0xe9",  # é
    "bilm-import nothing.json a.hdf5 words.txt OUT": r"nothing\.json",
    "build-vocab CONFIG OUT": "'output_path' should end with '.tar.gz'",
    "train nothing.jsonnet -s OUT": "nothing.jsonnet not found",
    'train CONFIG -s OUT -o {"trainer.patience":"x"}': r"trainer\.patience: Expected pa",
    'train CONFIG -s OUT -o {"data_loader.batch_size":"16"}': r"config\.json: .*batch_size",
    'train CONFIG -s OUT -o {"validation_data_path":3}': "validation_data_path: .*expected a path",
    'train CONFIG -s OUT -o {"test_data_path":3}': "test_data_path or .*expected a path",
    'train CONFIG -s OUT -o {"trainer.num_epoch":1}': r"config\.json: .*num_epoch -> unknown",
    'train CONFIG -s OUT -o {"dataset_reader.token_indexers":{"x":"y"}}': r"_indexers\.x: y not",
    "train CONFIG -s OUT --include-package nosuch": "--include-package: expected a package",
}


@pytest.mark.parametrize("arguments", SLIPS)
def test_a_slip_is_one_clear_sentence(arguments, bilm_archive, tmp_path, monkeypatch, params):
    """By definition: it names the argument, the file or the key and says what is wrong, without the
    hint that ALLENNLP_DEBUG=1 shows where the program has a fault, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "config.json", json.dumps(params))
    for name, text in FILES.items():
        write_file(tmp_path / name, text)
    with tarfile.open(tmp_path / "foreign.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "text.txt", "a.txt")
    write_file(tmp_path / "cut.tar.gz", Path(bilm_archive).read_bytes()[:10_000])
    known = {"ARCHIVE": bilm_archive, "TEXT": "text.txt", "CONFIG": "config.json", "OUT": "out"}
    known |= {"FOREIGN": "foreign.tar.gz", "TEXT,TEXT": "a,b", "CUT": "cut.tar.gz"}
    known["LOADER"] = json.dumps({"data_loader": {"type": "bilm", "batch_size": 2}})
    end, printed = ended(*(known.get(word, word) for word in arguments.split(" ")))
    assert_one_line(end, printed)
    assert re.search(SLIPS[arguments], str(end)), end
    assert "ALLENNLP_DEBUG" not in str(end) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text, key",
    [
        ("{ a: 1,, }", "STATIC ERROR"),
        ("import 'nothing.libsonnet'", "nothing.libsonnet"),
        ("{ a: error 'wrong' }", "RUNTIME ERROR: wrong"),  # without Jsonnet's trace after it
        ("{ a: std.extVar('NOTHING') }", "NOTHING"),
        ("[1]", ""),
        ("", ""),
    ],
)
def test_jsonnet(tmp_path, text, key):
    """The line has jsonnet's own message."""
    file = str(write_file(tmp_path / "config.jsonnet", text))
    end, printed = ended("train", file, "-s", str(tmp_path / "run"))
    assert_one_line(end, printed)
    assert isinstance(end, str) and file in end and key in end


def test_outdated_keys(tmp_path, params):
    """The file's name comes before them. tests/allennlp_today/test_old_configs.py has the keys."""
    params["iterator"], params["trainer"]["shuffle"] = "basic", True
    file = str(write_file(tmp_path / "config.json", json.dumps(params)))
    for command in ("train", "find-lr"):
        first, *lines = str(ended(command, file, "-s", str(tmp_path / "run"))[0]).splitlines()
        assert first == f"{PROGRAM}: {file}: expected a config of AllenNLP 2.10.1, found"
        assert len(lines) == 2
        assert not (tmp_path / "run").exists()


def test_a_fault_of_the_program_says_how_to_see_where(bilm_archive, monkeypatch):
    """By definition: an error that nobody raised for users has the hint, and its type."""
    monkeypatch.setattr("allennlp.commands.evaluate.load_archive", fails_with(KeyError("gone")))
    end, _ = ended("evaluate", bilm_archive, "text.txt")
    assert str(end).endswith("KeyError: 'gone'; ALLENNLP_DEBUG=1 shows where")


@pytest.mark.parametrize(
    "error, code",
    [
        (ValueError("nan loss encountered"), None),
        (FloatingPointError("expected a finite loss, found nan loss"), None),
        (KeyboardInterrupt(), 130),
        (SigTermReceived(), 143),
    ],
)
def test_a_loss_that_is_not_finite_and_an_interrupt(tmp_path, monkeypatch, params, error, code):
    """An interrupt has the number that shells give it."""
    monkeypatch.setattr(GradientDescentTrainer, "batch_outputs", fails_with(error))
    end, printed = train(tmp_path, params)
    assert_one_line(end, printed)
    if code is None:
        assert "nan loss" in end, end
        assert ("ALLENNLP_DEBUG" in end) == isinstance(error, ValueError)
    else:
        assert end == code and "interrupted; with --recover, the run resumes from" in printed


@pytest.mark.parametrize("key", ["train_data_path", "validation_data_path", "vocabulary"])
def test_a_corrected_command(tmp_path, monkeypatch, params, key):
    """By definition: after a start that failed, the same command works once the config is right.
    A run that had begun to train keeps its folder."""
    wrong = params | {key: {"type": "bilm", "file": "gone"} if key == "vocabulary" else "gone"}
    archive = tmp_path / "run" / "model.tar.gz"
    assert "gone" in str(train(tmp_path, wrong)[0]) and not archive.parent.exists()
    assert train(tmp_path, params)[0] is None and archive.exists()
    assert "already exists" in str(train(tmp_path, params)[0]) and archive.exists()
    error = RuntimeError("in a batch")
    monkeypatch.setattr(GradientDescentTrainer, "batch_outputs", fails_with(error))
    assert "in a batch" in str(train(tmp_path, params, run="failed")[0])
    assert (tmp_path / "failed" / "out.log").exists()


@pytest.mark.parametrize("step", ["TrainModel.finish", "archive_model"])
def test_an_error_after_training(tmp_path, monkeypatch, params, step):
    """By definition: the trained weights stay if the evaluation or the archive that follows fails,
    as on a full disk."""
    monkeypatch.setattr(f"allennlp.commands.train.{step}", fails_with(OSError("No space left")))
    assert "No space left" in str(train(tmp_path, params)[0])
    assert (tmp_path / "run" / "best.th").exists()


def test_a_signal_before_training(tmp_path, monkeypatch, params):
    """By definition: what the message promises, that --recover then starts the run."""
    with monkeypatch.context() as patch:
        from_params = "allennlp.commands.train.TrainModel.from_params"
        patch.setattr(from_params, fails_with(SigTermReceived()))
        end, printed = train(tmp_path, params)
    assert end == 143 and "with --recover" in printed
    assert train(tmp_path, params, "--recover")[0] is None
    assert (tmp_path / "run" / "model.tar.gz").exists()


@pytest.mark.parametrize(("trainer", "n_lines"), [("trainer+", 0), ("trainer", 1)])
def test_a_trainer_that_was_replaced(tmp_path, params, trainer, n_lines):
    """By definition: `trainer: {…}` without `+` leaves nothing of the imported config, which a line
    of the log says, and `trainer+:` keeps what it has."""
    (tmp_path / "base.json").write_text(json.dumps(params))
    text = f"(import 'base.json') + {{ {trainer}: {{ num_epochs: 1, cuda_device: -1 }} }}"
    config = write_file(tmp_path / "config.jsonnet", text)
    assert ended("train", str(config), "-s", str(tmp_path / "run"))[0] is None
    lines = (tmp_path / "run" / "out.log").read_text().splitlines()
    assert len([line for line in lines if "WARNING" in line and "trainer+:" in line]) == n_lines


def test_the_traceback_on_demand(tmp_path, monkeypatch):
    """The error is Jsonnet's."""
    monkeypatch.setenv("ALLENNLP_DEBUG", "1")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RuntimeError, match="STATIC ERROR"):
        run(["train", str(tmp_path / "config.json"), "-s", str(tmp_path / "run")])


def test_the_data_of_a_reader_is_named(tmp_path):
    """By definition: its error, here of a word without a tag, names no file."""
    text, config = tmp_path / "text", f"{ROOT}/training_configs/tagger.jsonnet"
    data = json.dumps({"train_data_path": str(write_file(text, "word\n"))})
    end = ended("train", config, "-s", str(tmp_path / "run"), "-o", data)[0]
    assert f"{config}: {text}: ValueError: " in str(end)


@pytest.mark.long
def test_distributed_training_without_a_plugins_file(tmp_path, params):
    """The processes know the plugin's names in a folder that has no `.allennlp_plugins`."""
    params["distributed"] = {"cuda_devices": [-1, -1]}
    del params["trainer"]["cuda_device"]
    (tmp_path / "config.json").write_text(json.dumps(params))
    command = ["-m", "elmo_plugin", "train", "config.json", "-s", "run"]
    python(*command, folder=tmp_path, HOME=str(tmp_path))
    assert (tmp_path / "run" / "model.tar.gz").exists()
