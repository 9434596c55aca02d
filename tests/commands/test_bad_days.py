"""Failures of long commands: a signal at a random moment, a full disk, a folder that may not be
written, and a second process with the same output. Each command runs in a separate process, as a
user starts it. After any failure, running the same command again gives the result of an undisturbed
run."""

import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands import main
from allennlp.common import file_utils
from allennlp.common.plugins import import_plugins
from allennlp.models import Model
from tqdm import tqdm

from elmo_plugin.commands import score
from elmo_plugin.corpora import dump, uses
from tests.conftest import ROOT, Fuzz
from tests.ordinary_user import NOBODY

pytestmark = pytest.mark.long
FORK = multiprocessing.get_context("fork")
FULL = r"No space left|space left\?|disk (may be|is) full|File too large"


@dataclass(frozen=True)
class Command:
    """`arguments` are of `allennlp`, where IN is the folder of the input and OUT the output.
    `result` reads what two runs must have in common. With `again`, the command may find a part of
    its output, and then gets these arguments too; without, the output must appear at once."""

    arguments: str
    result: Callable[[Path], Any]
    again: str | None = None


def _sums(out: Path) -> dict[str, str]:
    """A checksum of each file of a folder, or of one file. A SIGKILL leaves hidden temporary files,
    which do not count."""
    files = sorted(out.rglob("*")) if out.is_dir() else [out]
    return {
        str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file() and not file.name.startswith(".")
    }


def _members(archive: Path) -> dict[str, str]:
    """A checksum of each file of an archive, whose own bytes have its time in them."""
    sums = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                sums[member.name] = hashlib.sha256(content.read()).hexdigest()
    return sums


def _trained(out: Path) -> Any:
    """The weights, the vocabulary and the best metric of a training run."""
    metrics = json.loads((out / "metrics.json").read_text())
    members = _members(out / "model.tar.gz")
    return members["weights.th"], members["vocabulary/words.txt"], metrics["best_validation_loss"]


COMMANDS = {
    "train": Command("train IN/bilm.json -s OUT", _trained, "-r"),
    "bilm-encode": Command("bilm-encode IN/text OUT", _sums),
    "elmo": Command("elmo IN/lines.txt OUT --all --archive IN/model.tar.gz", _sums),
    "score": Command("score IN/lines.txt --output-file OUT --archive IN/model.tar.gz", _sums),
    "uses": Command("uses IN/lines.txt IN/words.txt OUT --archive IN/model.tar.gz", _sums),
    "bilm-export": Command("bilm-export IN/model.tar.gz OUT --softmax", _sums, ""),
    "bilm-import": Command(
        "bilm-import IN/model/options.json IN/model/weights.hdf5 IN/model/vocabulary.txt OUT",
        _members,
    ),
}
each_command = pytest.mark.parametrize("name", COMMANDS)


def _child(arguments: list[str], log: Path, cache: Path, user: int | None) -> None:
    os.setsid()
    torch.set_num_threads(1)
    # Forks share tqdm's lock, and one that is killed while it has it would keep it forever.
    tqdm.set_lock(threading.RLock())
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    file_utils.CACHE_DIRECTORY = str(cache)
    sys.argv = ["allennlp", *arguments]
    main(prog="allennlp")


class Bench:
    """Runs one command with inputs of its own."""

    def __init__(self, name: str, inputs: Path, folder: Path) -> None:
        self.command = COMMANDS[name]
        self.inputs = inputs
        self.folder = folder
        self.log = folder / "log.txt"

    def start(self, out: Path, log: Path | None = None, user: int | None = None) -> Any:
        text = self.command.arguments
        if self.command.again and (out / "config.json").exists():
            text += f" {self.command.again}"
        values = {"IN": str(self.inputs), "OUT": str(out)}
        words = [re.sub(r"^(IN|OUT)\b", lambda m: values[m[1]], word) for word in text.split()]
        places = (log or self.log, self.inputs / "cache")
        process = FORK.Process(target=_child, args=(words, *places, user))
        process.start()
        return process

    def run(self, out: Path, user: int | None = None) -> int | None:
        process = self.start(out, user=user)
        process.join(300)
        assert process.exitcode is not None, f"it hangs:\n{self.log.read_text()}"
        return process.exitcode

    def is_done(self, out: Path) -> bool:
        """Whether an output is there that a user takes for whole."""
        return self.command.again is None and out.exists()

    def finish(self, out: Path) -> Any:
        """The result of a run after a failure."""
        if not self.is_done(out):
            assert self.run(out) == 0, self.log.read_text()
        return self.command.result(out)

    def last_line(self, log: Path | None = None) -> str:
        lines = (log or self.log).read_text().strip().splitlines()
        return lines[-1] if lines else ""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> Iterator[Path]:
    """Inputs of all commands, which anybody may read. All modules are imported once for all
    children, and before a child has other rights. The children write a text in ten parts."""
    import_plugins()
    importlib.import_module("torch._dynamo")  # an optimizer imports it, for longer than it trains
    Model.from_archive(bilm_archive)
    folder = tmp_path_factory.mktemp("inputs")
    shutil.copytree(ROOT / "fixtures" / "text", folder / "text")
    shutil.copy(bilm_archive, folder / "model.tar.gz")
    text = (folder / "text" / "train.txt").read_text("utf-8").splitlines()
    lines = [line + "\n" for line in text if line]
    (folder / "lines.txt").write_text("".join(lines), "utf-8")
    (folder / "words.txt").write_text("the\nof\na\n")
    (folder / "short.txt").write_text("".join(lines[:30]), "utf-8")
    (folder / "heldout.txt").write_text("".join(lines[-9:]), "utf-8")
    (folder / "bilm.json").write_text(json.dumps(_training(folder)))
    (folder / "cache").mkdir()
    assert Bench("bilm-export", folder, folder).run(folder / "model") == 0
    with pytest.MonkeyPatch.context() as patch:
        for module in (dump, score, uses):
            patch.setattr(module, "PART_SENTENCES", 16)
        yield folder


def _training(folder: Path) -> dict[str, Any]:
    """A run of two epochs that saves every third batch, in all some twenty batches."""
    text = str(folder / "short.txt")
    encoded = {"type": "bilm", "cache_dir": str(folder / "cache")}
    return {
        "dataset_reader": {"type": "bilm"},
        "train_data_path": text,
        "validation_data_path": str(folder / "heldout.txt"),
        "vocabulary": {**encoded, "corpus": text, "min_count": 2},
        "data_loader": {**encoded, "batch_size": 4, "window": 8},
        "validation_data_loader": {**encoded, "batch_size": 2, "window": 8, "shuffle": None},
        "model": {
            "type": "bilm",
            "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
            "lstm": {"dim": 24, "projection_dim": 8, "n_layers": 2, "use_skip_connections": True},
            "n_negative_samples": 20,
        },
        "trainer": {
            "optimizer": {"type": "fused_adam", "lr": 0.01},
            "num_epochs": 2,
            "cuda_device": -1,
            "checkpointer": {"type": "bilm", "save_every_num_batches": 3},
        },
    }


@dataclass(frozen=True)
class Whole:
    """The result of an undisturbed run, its seconds, and the bytes that it writes."""

    result: Any
    seconds: float
    n_bytes: int


@pytest.fixture(scope="module")
def wholes() -> dict[str, Whole]:
    return {}


@pytest.fixture
def bench(name: str, inputs: Path, tmp_path: Path) -> Bench:
    return Bench(name, inputs, tmp_path)


@pytest.fixture
def whole(
    name: str, inputs: Path, wholes: dict[str, Whole], tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    """The second of two runs, whose encoded corpora are in the cache, as in those after it."""
    if name not in wholes:
        bench = Bench(name, inputs, tmp_path_factory.mktemp("whole"))
        for out in (bench.folder / "first", bench.folder / "out"):
            started = time.monotonic()
            assert bench.run(out) == 0, bench.log.read_text()
        n_bytes = sum(file.stat().st_size for file in [out, *out.rglob("*")] if file.is_file())
        result = bench.command.result(out)
        assert bench.command.result(bench.folder / "first") == result
        wholes[name] = Whole(result, time.monotonic() - started, n_bytes)
    return wholes[name]


def _nothing_else(folder: Path) -> bool:
    """Whether all that is left are hidden files with the name of the output: locks, which
    `bilm-encode` keeps, and what a SIGKILL did not let a command remove."""
    names = {file.name for file in folder.iterdir() if not file.name.startswith(".out")}
    return names <= {"log.txt"}


@each_command
def test_kills(bench: Bench, whole: Whole, fuzz: Fuzz) -> None:
    """One to three signals at random moments, to all processes of the command: a kill, Ctrl+C, that
    of a scheduler and that of a closed terminal. The expected result is that of the run without
    them."""
    for number, random in enumerate(fuzz.cases(1)):
        out = bench.folder / f"out{number}"
        for _ in range(random.randint(1, 3)):
            process = bench.start(out)
            process.join(random.uniform(0, 1.2) * whole.seconds)
            if process.is_alive():
                number_sent = random.choice(SIGNALS)
                if _leads(process.pid):
                    os.killpg(process.pid, number_sent)
                else:
                    process.kill()
            process.join(300)
            assert process.exitcode is not None, f"it hangs:\n{bench.log.read_text()}"
            if process.exitcode == 0 or bench.is_done(out):
                break
        found = bench.command.result(out) if process.exitcode == 0 else bench.finish(out)
        assert found == whole.result, number
        shutil.rmtree(out) if out.is_dir() else out.unlink()
        assert _nothing_else(bench.folder), (number, list(bench.folder.iterdir()))


SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _leads(pid: int) -> bool:
    """Whether the child has come as far as to lead a process group of its own."""
    return os.getpgid(pid) == pid


@each_command
def test_a_full_disk(bench: Bench, whole: Whole, fuzz: Fuzz) -> None:
    """The output is on a file system in memory with a random number of free bytes, which gets
    space later."""
    disk = bench.folder / "disk"
    disk.mkdir()
    if os.geteuid() or not _mount(disk, "size=16k"):
        pytest.skip("only root can mount a small disk")
    try:
        for number, random in enumerate(fuzz.cases(1)):
            out = disk / "out"
            size = 4 + int(random.random() ** 2 * 1.5 * whole.n_bytes / 1024)
            assert _mount(disk, f"remount,size={size}k")
            if bench.run(out) != 0:
                assert re.search(FULL, bench.last_line()), (size, bench.log.read_text())
                assert _mount(disk, "remount,size=100m")
                assert bench.finish(out) == whole.result, size
            assert bench.command.result(out) == whole.result, size
            assert _mount(disk, "remount,size=100m")
            shutil.rmtree(out) if out.is_dir() else out.unlink()
            assert all(file.suffix == ".lock" for file in disk.iterdir()), number
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _mount(disk: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@each_command
def test_a_folder_that_may_not_be_written(bench: Bench, inputs: Path, whole: Whole) -> None:
    """The message names the output and says that permission is missing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(inputs, folder / "inputs")
        for opened in (folder, folder / "inputs"):
            opened.chmod(0o755)
        bench.inputs = folder / "inputs"
        (bench.inputs / "bilm.json").write_text(json.dumps(_training(bench.inputs)))
        (bench.inputs / "cache").chmod(0o777)
        closed = folder / "closed"
        closed.mkdir()
        closed.chmod(0o555)
        user = NOBODY if os.geteuid() == 0 else None
        assert bench.run(closed / "out", user=user) == 1, bench.log.read_text()
        line = bench.last_line()
        assert str(closed) in line, bench.log.read_text()
        assert "Permission denied" in line or "a writable folder" in line


@each_command
def test_two_processes(bench: Bench, whole: Whole, fuzz: Fuzz) -> None:
    """The second one starts at a random moment of the first. One or both end well; the other says
    in one line what it found at the output. The expected result is that of one process alone."""
    for number, random in enumerate(fuzz.cases(1)):
        out = bench.folder / f"out{number}"
        logs = [bench.folder / f"log{k}.txt" for k in (1, 2)]
        first = bench.start(out, log=logs[0])
        first.join(random.uniform(0, 1) * whole.seconds)
        second = bench.start(out, log=logs[1])
        codes = []
        for process, log in zip((first, second), logs):
            process.join(300)
            codes.append(process.exitcode)
            if process.exitcode:
                assert process.exitcode == 1, log.read_text()
                assert str(out) in bench.last_line(log), log.read_text()
        assert 0 in codes, [log.read_text() for log in logs]
        assert bench.command.result(out) == whole.result, (number, codes)
