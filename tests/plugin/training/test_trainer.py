"""These tests run other commands and callbacks of AllenNLP with a `bilm` and its windows."""

import json
import struct
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.training.callbacks import TrainerCallback
from google.protobuf.message import DecodeError
from tensorboardX.proto.event_pb2 import Event
from wandb.proto.wandb_internal_pb2 import Record

from allennlp_today.callbacks import CurrentWandBCallback
from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.plugin.callbacks.learning_curve import LearningCurveCallback
from elmo_plugin.text.lines import read_sentences
from tests.conftest import allennlp
from tests.plugin.models.test_training import TEXT, config

BATCH_SIZE = 4


def write_config(folder: Path, callbacks: list[dict[str, Any]]) -> Path:
    params = config(folder / "cache").as_dict()
    params["trainer"].update(num_epochs=1, callbacks=callbacks)
    params["data_loader"]["batch_size"] = BATCH_SIZE
    Params(params).to_file(str(folder / "config.json"))
    return folder / "config.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that both log writers have watched."""
    folder = tmp_path_factory.mktemp("trainer")
    every = {"summary_interval": 10, "distribution_interval": 20, "batch_size_interval": 10}
    callbacks = [{"type": "tensorboard", **every}, {"type": "wandb", **every}]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_CONFIG_DIR": str(folder),
            "WANDB_CACHE_DIR": str(folder),
            "WANDB_DATA_DIR": str(folder),
        }.items():
            patch.setenv(name, value)
        allennlp("train", write_config(folder, callbacks), "-s", folder / "run")
    return folder / "run"


def metrics(run: Path) -> dict[str, Any]:
    return json.loads((run / "metrics.json").read_text())


def tensorboard_scalars(folder: Path) -> dict[tuple[str, int], float]:
    """The scalars in the event files of a folder, by name and step. Each record is its length in 8
    bytes, a checksum of 4, the event, and a checksum of 4 (TensorFlow's TFRecord)."""
    found = {}
    for file in folder.glob("events.*"):
        data = file.read_bytes()
        while data:
            end = 12 + struct.unpack("<Q", data[:8])[0]
            event = Event.FromString(data[12:end])
            found.update({(v.tag, event.step): v.simple_value for v in event.summary.value})
            data = data[end + 4 :]
    return found


def test_tensorboard(run: Path) -> None:
    """The expected values are the run's own metrics, and the rows of a batch in the config."""
    logged: dict[str, list[float]] = {}
    for kind in ("train", "validation"):
        for (name, _), value in tensorboard_scalars(run / "log" / kind).items():
            logged.setdefault(name, []).append(value)
    assert set(logged["train/batch_size"]) == {BATCH_SIZE}
    assert logged["train/sampled_loss"] == pytest.approx([metrics(run)["training_sampled_loss"]])
    perplexity = metrics(run)["validation_perplexity"]
    assert logged["validation/perplexity"] == pytest.approx([perplexity])
    assert "parameter_histogram/softmax.weight" in logged


def records(log: bytes) -> list[bytes]:
    """The records of a file in LevelDB's log format, in which a record that crosses the end of a
    block of 32 KiB is divided: in front of each part are a checksum (4 bytes), the length (2) and
    the kind (1), which is 1 or 2 for the first part of a record. The file begins with 7 bytes of
    its own."""
    found: list[bytes] = []
    place = 7
    while place < len(log):
        if (rest := -place % 32768) and rest < 7:
            place += rest  # no header fits here
            continue
        end = place + 7 + int.from_bytes(log[place + 4 : place + 6], "little")
        if log[place + 6] in (1, 2):
            found.append(b"")
        found[-1] += log[place + 7 : end]
        place = end
    return found


def written_records(file: Path) -> list[Record]:
    """The records of a file that a process of wandb may still be writing."""
    for _ in range(60):
        with suppress(DecodeError):
            found = list(map(Record.FromString, records(file.read_bytes())))
            if any(record.HasField("exit") for record in found):
                return found
        time.sleep(1)
    raise AssertionError(f"{file} did not become complete in a minute")


def test_records() -> None:
    """The expected records were divided by hand, the second one at the end of the first block."""
    one, two = bytes(range(200)), bytes(range(256)) * 200
    first = 32768 - 7 - (7 + len(one)) - 7
    log = b":W&B..." + b"crc." + len(one).to_bytes(2, "little") + b"\1" + one
    log += b"crc." + first.to_bytes(2, "little") + b"\2" + two[:first]
    log += b"crc." + (len(two) - first).to_bytes(2, "little") + b"\4" + two[first:]
    assert records(log) == [one, two]


def test_wandb(run: Path) -> None:
    """The expected values are the run's own metrics, in the file that is kept for a later sync."""
    [file] = run.glob("wandb/offline-run-*/run-*.wandb")
    logged: dict[str, set[str]] = {}
    for record in written_records(file):
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            logged.setdefault(name, set()).add(item.value_json)
    for name, value in [
        ("train/batch_size", BATCH_SIZE),
        ("train/sampled_loss", metrics(run)["training_sampled_loss"]),
        ("validation/perplexity", metrics(run)["validation_perplexity"]),
    ]:
        assert set(map(float, logged[name])) == {value}


def test_evaluate(run: Path, tmp_path: Path) -> None:
    """The expected values are those that training found for the same text."""
    file = tmp_path / "metrics.json"
    allennlp("evaluate", run / "model.tar.gz", TEXT / "heldout.txt", "--output-file", file)
    found = json.loads(file.read_text())
    for name in ("perplexity", "forward_perplexity", "backward_perplexity"):
        assert found[name] == pytest.approx(metrics(run)[f"best_validation_{name}"])


def test_find_lr(tmp_path: Path) -> None:
    """The command draws the curve, which needs as many losses as batches were asked for."""
    file = write_config(tmp_path, callbacks=[])
    allennlp("find-lr", file, "-s", tmp_path / "lr", "--num-batches", "20")
    assert (tmp_path / "lr" / "lr-losses.png").stat().st_size > 0


def test_count_instances(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """There is one instance for each line of the text that is not blank."""
    allennlp("count-instances", write_config(tmp_path, callbacks=[]))
    n_sentences = len(list(read_sentences(TEXT / "train.txt")))
    assert f"contains {n_sentences} instances" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "overrides", "message"),
    [
        ({"a.txt": ""}, {"train_data_path": "a.txt"}, r"a\.txt: .* found no token"),
        ({"a.txt": "\n\n"}, {"validation_data_path": "a.txt"}, r"a\.txt: .* found no token"),
        ({}, {"train_data_path": "*.txt"}, r"\*\.txt: expected text files, found none"),
        ({"a.txt": "x\n\nñ"}, {"train_data_path": "a.txt"}, r"a\.txt, line 3: .* 0xf1 at byte 1"),
        ({"a.txt": "x\ny\n"}, {"train_data_path": "a.txt"}, r"a\.txt: .* 2 line\(s\) for 4 rows"),
    ],
    ids=["empty", "blank", "glob", "latin", "few_sentences"],
)
def test_bad_input_is_named(
    files: dict[str, str],
    overrides: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message is that of `allennlp train`. Files are Latin-1, so that `ñ` is the byte 0xf1."""
    params = config(tmp_path / "cache").as_dict()
    params.update(overrides)
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        Path(name).write_text(text, encoding="latin-1")
    Params(params).to_file("config.json")
    with pytest.raises((InputError, FileNotFoundError), match=message):
        allennlp("train", "config.json", "-s", "run", "--include-package", "elmo_plugin")


def test_values_for_wandb_are_read(tmp_path: Path) -> None:
    """A config has the values of AllenNLP's own callback."""
    (tmp_path / "config.json").write_text("{}")
    params = {"type": "wandb", "summary_interval": 5, "project": "p", "tags": ["a"]}
    callback = TrainerCallback.from_params(Params(params), serialization_dir=str(tmp_path))
    assert isinstance(callback, CurrentWandBCallback)
    assert callback._summary_interval == 5
    assert callback._wandb_kwargs["project"] == "p" and callback._wandb_kwargs["tags"] == ["a"]


def test_lines_of_a_run_that_was_killed_are_removed(tmp_path: Path) -> None:
    """By hand: a run that was killed before its first checkpoint starts again, is killed after a
    checkpoint, and is resumed. The curve has no line of the first run, and none twice."""

    def run(losses: list[float], state: dict[str, Any] | None = None) -> dict[str, Any]:
        callback = LearningCurveCallback(str(tmp_path), interval=2)
        if state is not None:
            callback.load_state_dict(state)
        first = 2 * state["n_lines"] if state else 0
        trainer: Any = SimpleNamespace(_total_batches_completed=0)
        callback.on_start(trainer)
        saved: dict[str, Any] = {}
        for number, loss in enumerate(losses, start=first + 1):
            trainer._total_batches_completed = number
            outputs: Any = [{"loss": torch.tensor(loss)}]
            callback.on_batch(trainer, [], outputs, {}, 0, number, is_training=True)
            if number == 4:
                saved.update(callback.state_dict())
        return saved

    run([9.0] * 8)
    saved = run([1.0] * 6)
    run([2.0] * 4, saved)
    lines = (tmp_path / "learning_curve.jsonl").read_text().splitlines()
    found = [(line["batch"], line["training_loss"]) for line in map(json.loads, lines)]
    assert found == [(2, 1.0), (4, 1.0), (6, 2.0), (8, 2.0)]


def test_the_curve_of_short_epochs_without_the_penalty(tmp_path: Path) -> None:
    """By hand: four epochs of three batches have a line after batches 5 and 10. The trainer adds a
    regularizer's penalty, here 100, to the loss."""
    callback = LearningCurveCallback(str(tmp_path), interval=5)
    for number in range(1, 13):
        trainer = SimpleNamespace(_total_batches_completed=number)
        penalty = torch.tensor(100.0)
        outputs: Any = [{"loss": number + penalty, "reg_loss": penalty}]
        callback.on_batch(trainer, [], outputs, {}, 0, 1 + (number - 1) % 3, is_training=True)
    lines = (tmp_path / "learning_curve.jsonl").read_text().splitlines()
    found = [(line["batch"], line["training_loss"]) for line in map(json.loads, lines)]
    assert found == [(5, 3.0), (10, 8.0)]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """/dev/full is the operating system's own full disk."""
    callback = LearningCurveCallback(str(tmp_path))
    callback.path.symlink_to("/dev/full")
    trainer = SimpleNamespace(_total_batches_completed=20)
    with pytest.raises(DiskFullError, match=r"learning_curve\.jsonl: could not be written"):
        callback.on_batch(trainer, [], [{"loss": torch.ones(())}], {}, 0, 20, is_training=True)
