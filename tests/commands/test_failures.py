"""
Failures of commands: signals at moments that are counted in function calls, so that each can be
repeated, a full disk, and a folder that may not be written. The expected result is always that of
an undisturbed run. tests/corpora/test_parts.py and tests/files/test_atomic_write.py have two
processes with the same output.
"""

import contextlib
import gc
import io
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch
from tqdm import tqdm

from elmo_plugin.__main__ import run
from elmo_plugin.commands import runner, score
from elmo_plugin.corpora import dump, uses
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files import interrupts
from elmo_plugin.files.atomic_write import ENDING, atomic_write
from elmo_plugin.files.hdf5 import HDF5Bytes, write_array
from elmo_plugin.files.interrupts import SIGNALS, end_command, end_if_interrupted
from tests.conftest import Fuzz, python
from tests.ordinary_user import as_ordinary_user

FORK = multiprocessing.get_context("fork")
IN_HDF5 = ("h5py", "weakref", "elmo_plugin.files.hdf5")
"""Modules with what HDF5 does, also when h5py's objects are deleted."""
TEXT = """The dog threw the stick .
He threw the dog to the stick .
the
A dog , a stick and another dog .
to the dog
Stick !
the dog the dog
He
the stick of the dog
"""
COMMANDS = {
    "uses": "uses text words OUT --archive-file model",
    "score": "score text --output-file OUT --archive-file model --initial-state carry",
    "elmo": "elmo text OUT --all --batch-size 1 --archive-file model",
    "elmo --pool": "elmo text OUT.npy --top --pool mean --archive-file model "
    "--initial-state carry --batch-size 2",
    "bilm-encode": "bilm-encode text OUT",
    "bilm-export": "bilm-export model OUT --softmax",
    "save": "",
}
"""The arguments of each command, and `Elmo.save`."""
each_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> Iterator[Path]:
    """A text of five parts, words and a biLM."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text").write_text(TEXT)
    (folder / "words").write_text("dog\nstick\n")
    shutil.copy(bilm_archive, folder / "model")
    with pytest.MonkeyPatch.context() as patch:
        for module in (dump, score, uses):
            patch.setattr(module, "PART_SENTENCES", 2)
        yield folder


class Work:
    """What a process does after its imports: a command, whose output is in a folder of its own."""

    def __init__(self, name: str, inputs: Path, folder: Path) -> None:
        self.name, self.inputs, self.folder = name, inputs, folder
        self.out = folder / ("out.npy" if "--pool" in name else "out")
        self.replaces = name in ("bilm-export", "save")
        """Whether the files of the output are moved to their places one by one."""
        self.elmo = Elmo.from_archive(str(inputs / "model")) if name == "save" else None

    def __call__(self) -> int | str | None:
        if self.elmo is not None:
            return self.elmo.save(self.out)
        words = [x.replace("OUT", str(self.folder / "out")) for x in COMMANDS[self.name].split()]
        given = (self.inputs / word for word in words)
        return run([str(x) if x.exists() else word for x, word in zip(given, words)])

    def start_again(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def content(self) -> dict[str, bytes]:
        """The files of the output."""
        files = sorted(self.out.rglob("*")) if self.out.is_dir() else [self.out]
        return {str(x.relative_to(self.out)): x.read_bytes() for x in files if x.is_file()}

    def is_complete(self) -> bool:
        """Whether the output is in place, if it is moved there at once."""
        return not self.replaces and self.out.exists()


@pytest.fixture
def work(name: str, inputs: Path, tmp_path: Path) -> Work:
    work = Work(name, inputs, tmp_path / "folder")
    work.start_again()
    work()  # imports
    return work


@pytest.fixture
def whole(work: Work) -> dict[str, bytes]:
    """The files of an undisturbed run, after which they are removed."""
    content = work.content()
    work.start_again()
    return content


class Moments:
    """Counts the calls of functions, and sends a signal at the call number `at`. `in_hdf5`: the
    calls in h5py and in the files to which HDF5 writes."""

    def __init__(self, at: int | None = None, sent: signal.Signals = signal.SIGINT) -> None:
        self.at, self.sent = at, sent
        self.n = 0
        self.in_hdf5: list[int] = []
        self._depth = 0

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        if event in ("call", "return") and (self._depth or _is_in_hdf5(frame)):
            self._depth += 1 if event == "call" else -1
        if event == "return":  # also of a generator that is deleted, where no signal is handled
            return
        self.n += 1
        if self.n == self.at:
            signal.raise_signal(self.sent)
        elif self._depth:
            self.in_hdf5.append(self.n)


def _is_in_hdf5(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(IN_HDF5)


class Ended(NamedTuple):
    code: int | str
    printed: str = ""
    n: int = 0
    in_hdf5: Sequence[int] = ()


def _child(work: Callable[[], Any], moments: Moments, send: Any) -> None:
    interrupts._is_output_there = False  # of a command that this process has run
    for number in SIGNALS:
        signal.signal(number, end_command)
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # forks share the other one
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            sys.setprofile(moments)
            code = work()
        except KeyboardInterrupt:  # of `save`, which no command runs
            code = 128 + interrupts.received
        except OSError as error:
            code = str(error)
        finally:
            sys.setprofile(None)
    send.send(Ended(code or 0, printed.getvalue(), moments.n, moments.in_hdf5))
    send.close()
    os._exit(0)


def ended(work: Callable[[], Any], moments: Moments | None = None) -> Ended:
    """Run in a process of its own."""
    receive, send = FORK.Pipe(False)
    arguments = work, moments or Moments(0), send
    process = FORK.Process(target=_child, args=arguments, daemon=True)
    process.start()
    send.close()
    assert receive.poll(120), "it hangs"
    try:
        result = receive.recv()
    except EOFError:
        result = None
    process.join(60)
    return result or Ended(process.exitcode)  # it was killed


@pytest.mark.parametrize(
    "seed, n", [(0, 2), *(pytest.param(seed, 50, marks=pytest.mark.long) for seed in range(1, 3))]
)
@each_command
def test_moments(work: Work, whole: dict[str, bytes], name: str, seed: int, n: int) -> None:
    """The exit code of a shell, no error, and nothing but what the next run removes. The same
    command then gives the files of an uninterrupted run. Half of the moments are in what HDF5 does.
    If the output was there at the moment, it is whole, and the run has succeeded."""
    run = ended(work, Moments())
    assert (run.code, work.content()) == (0, whole), run.printed
    random = Random(f"{seed} {name}")
    for number in range(n):
        work.start_again()
        at = random.randrange(run.n) + 1
        if run.in_hdf5 and number % 2:
            at = random.choice(run.in_hdf5)
        sent = random.choice([*SIGNALS, signal.SIGKILL])
        stopped = ended(work, Moments(at, sent))
        is_killed = stopped.code == -signal.SIGKILL
        if not is_killed and stopped.n <= at:  # a run has a few calls more or less
            continue
        code = -sent if sent == signal.SIGKILL else 0 if work.is_complete() else 128 + sent
        assert stopped.code == code, (at, stopped)
        assert not re.search("Traceback|Error|ignored", stopped.printed), (at, stopped)
        if work.is_complete():
            assert work.content() == whole, at
            continue
        files = {file.name for file in work.folder.rglob("*")}
        assert is_killed or not any(file.endswith(ENDING) for file in files), (at, files)
        again = ended(work)
        assert (again.code, work.content()) == (0, whole), (at, again)
        assert {file.name for file in work.folder.iterdir()} <= {work.out.name, ".out.lock"}, at


@pytest.mark.parametrize("sent", SIGNALS)
@pytest.mark.parametrize("name", ["uses", "score", "elmo", "bilm-encode"])
def test_after_the_output(work, whole, sent, monkeypatch):
    """By definition: a run whose output is in place has succeeded. The signal comes while the
    output is moved there."""
    replace = os.replace

    def move(source: os.PathLike, target: os.PathLike) -> None:
        replace(source, target)
        if Path(target) == work.out:
            signal.raise_signal(sent)

    monkeypatch.setattr(os, "replace", move)
    assert (ended(work).code, work.content()) == (0, whole)
    assert [file.name for file in work.folder.iterdir() if file.suffix != ".lock"] == ["out"]


FULL = r"No space left|space left\?|disk (may be|is) full|File too large"


def _mount(disk: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.long
@each_command
def test_a_full_disk(work: Work, whole: dict[str, bytes], fuzz: Fuzz) -> None:
    """The output is on a file system in memory with a random number of free bytes, which gets
    space later."""
    if os.geteuid() or not _mount(work.folder, "size=16k"):
        pytest.skip("only root can mount a small disk")
    size = sum(map(len, whole.values())) / 1024
    try:
        for number, random in enumerate(fuzz.cases(1)):
            free = 4 + int(random.random() * 1.5 * size)
            assert _mount(work.folder, f"remount,size={free}k")
            if (full := ended(work)).code:
                assert re.search(FULL, str(full.code)), (free, full)
                assert _mount(work.folder, "remount,size=100m")
                assert ended(work).code == 0
            assert work.content() == whole, free
            shutil.rmtree(work.out) if work.out.is_dir() else work.out.unlink()
            assert all(file.suffix == ".lock" for file in work.folder.iterdir()), number
    finally:
        subprocess.run(["umount", "-l", str(work.folder)], check=True)


@each_command
def test_a_folder_that_may_not_be_written(name: str, inputs: Path) -> None:
    """The message names the output and says that permission is missing. It is missing in the output
    itself if this is a folder that may exist."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(inputs, Path(folder) / "inputs").chmod(0o755)
        (closed := Path(folder) / "out").mkdir(0o555)
        may_exist = name in ("bilm-export", "save")
        where = Path(folder) if may_exist else closed
        message = as_ordinary_user(Work(name, Path(folder) / "inputs", where))
        assert str(closed) in message
        assert "Permission denied" in message or "a writable folder" in message


LATE = """
import os, runpy, signal, sys
from elmo_plugin import version

class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

version.late = Late()
sys.argv = ["elmo_plugin", "elmo-configs", "out"]
runpy.run_module("elmo_plugin", run_name="__main__")
"""


def test_the_end_of_a_process(tmp_path: Path) -> None:
    """By definition: Python's own end, in which a signal has no handler any more, does not change
    the status of a run that has succeeded."""
    (tmp_path / "late.py").write_text(LATE)
    done = python("late.py", folder=tmp_path)  # which fails unless it is 0
    assert "Traceback" not in done.stderr and (tmp_path / "out" / "bilm.jsonnet").exists()


@pytest.fixture(params=SIGNALS)
def sent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A signal that is handled as in a command."""
    before = signal.signal(request.param, end_command)
    monkeypatch.setattr(interrupts, "received", None)
    monkeypatch.setattr(interrupts, "_is_output_there", False)
    for hook in ("unraisablehook", "excepthook"):
        monkeypatch.setattr(sys, hook, getattr(sys, hook))  # restored at the end
    yield request.param
    signal.signal(request.param, before)


class Deleted:
    def __init__(self, sent: int) -> None:
        self._sent = sent

    def __del__(self) -> None:
        signal.raise_signal(self._sent)


def _deleted(sent: int) -> None:
    del [Deleted(sent)][0]


def _replaced(sent: int) -> None:
    try:
        signal.raise_signal(sent)
    except KeyboardInterrupt:
        raise RuntimeError("an error of a library") from None


def _ignored(sent: int) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(sent)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lose", [_deleted, _replaced, _ignored])
def test_a_lost_error(lose, sent, monkeypatch):
    """By definition: an interrupt in a destructor, whose errors Python ignores, or which a library
    ignores or turns into another error, is an interrupt."""
    monkeypatch.setattr(runner, "run_command", lambda *_: lose(sent))
    assert run(["elmo-configs", "folder"]) == 128 + sent
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_error_before_a_file_is_there(sent: int, tmp_path: Path) -> None:
    """By definition: the file is not replaced, and no temporary file is left."""
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
        _deleted(sent)
    assert [(x.name, x.read_text()) for x in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_an_hdf5_file(n: int, sent: int, tmp_path: Path) -> None:
    """By definition: at whatever call the signal comes, it is an interrupt, and the file is whole
    or not there. The next file is written as if nothing had happened."""

    def write() -> None:
        with atomic_write(tmp_path / "file") as path:
            with HDF5Bytes(path) as disk, h5py.File(disk, "w") as file:
                for name in "ab":
                    write_array(file, name, np.ones((50, 50)))
                    disk.check()

    def profiled(moments: Moments) -> int:
        interrupts.received = None
        sys.setprofile(moments)
        try:
            write()
        finally:
            sys.setprofile(None)
            end_if_interrupted()
        return moments.n

    write()  # imports
    whole = (tmp_path / "file").read_bytes()
    (tmp_path / "file").unlink()
    n_calls = profiled(Moments(0))
    for number in range(min(n, n_calls)):
        (tmp_path / "file").unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            profiled(Moments(1 + number * n_calls // min(n, n_calls), signal.Signals(sent)))
        files = {x.name: x.read_bytes() for x in tmp_path.iterdir()}
        assert files in ({}, {"file": whole}), number
