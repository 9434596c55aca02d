"""Ctrl-C and SIGTERM at moments that are counted in function calls, so that each can be repeated.
The expected result is always that of the run without a signal."""

import contextlib
import gc
import io
import multiprocessing
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
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
from tests.conftest import python

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


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> Iterator[Path]:
    """A text of five parts, words and a biLM."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text").write_text(TEXT)
    (folder / "words").write_text("dog\nstick\n")
    (folder / "model").symlink_to(bilm_archive)
    with pytest.MonkeyPatch.context() as patch:
        for module in (dump, score, uses):
            patch.setattr(module, "PART_SENTENCES", 2)
        yield folder


def _save(model: Path, out: Path) -> Callable[[], Any]:
    elmo = Elmo.from_archive(str(model))
    return lambda: elmo.save(out)


def command(name: str, inputs: Path, out: Path) -> Callable[[], Any]:
    """What a process runs after its imports."""
    text, words, model = (str(inputs / x) for x in ("text", "words", "model"))
    if name == "save":
        return _save(inputs / "model", out)
    elmo = ["elmo", text, str(out), "--archive-file", model]
    arguments = {
        "uses": ["uses", text, words, str(out), "--archive-file", model],
        "score": ["score", text, "--output-file", str(out), "--archive-file", model],
        "elmo": [*elmo, "--all", "--batch-size", "1"],
        "elmo --pool": [*elmo, "--top", "--pool", "mean"],
        "bilm-encode": ["bilm-encode", text, str(out)],
        "bilm-export": ["bilm-export", model, str(out)],
    }
    return lambda: run(arguments[name])


NAMES = ["uses", "score", "elmo", "elmo --pool", "bilm-encode", "bilm-export", "save"]


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
    code: int
    printed: str
    n: int
    in_hdf5: list[int]


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
        finally:
            sys.setprofile(None)
    send.send(Ended(code or 0, printed.getvalue(), moments.n, moments.in_hdf5))
    send.close()
    os._exit(0)


def ended(work: Callable[[], Any], moments: Moments) -> Ended:
    """Run in a process of its own."""
    receive, send = FORK.Pipe(False)
    process = FORK.Process(target=_child, args=(work, moments, send))
    process.start()
    send.close()
    assert receive.poll(60), "it hangs"
    result = receive.recv()
    process.join(60)
    return result


def is_complete(name: str, out: Path) -> bool:
    """Whether the output is in place, if it is moved there at once."""
    return name not in ("bilm-export", "save") and out.exists()


def content(out: Path) -> dict[str, bytes]:
    files = sorted(out.rglob("*")) if out.is_dir() else [out]
    return {str(x.relative_to(out)): x.read_bytes() for x in files if x.is_file()}


@pytest.mark.parametrize(
    "seed, n", [(0, 2), *(pytest.param(seed, 50, marks=pytest.mark.long) for seed in range(1, 7))]
)
@pytest.mark.parametrize("name", NAMES)
def test_moments(name: str, seed: int, n: int, inputs: Path, tmp_path: Path) -> None:
    """The exit code of a shell, no error, and nothing but what the next run removes. The same
    command then gives the files of an uninterrupted run. Half of the moments are in what HDF5 does.
    If the output was there at the moment, it is whole, and the run has succeeded."""
    out = tmp_path / "folder" / ("out.npy" if "--pool" in name else "out")
    out.parent.mkdir()
    work = command(name, inputs, out)
    work()  # imports
    whole = content(out)
    shutil.rmtree(out.parent)
    out.parent.mkdir()
    run = ended(work, Moments())
    assert (run.code, content(out)) == (0, whole), run.printed
    random = Random(f"{seed} {name}")
    for number in range(n):
        shutil.rmtree(out.parent)
        out.parent.mkdir()
        at = random.randrange(run.n) + 1
        if run.in_hdf5 and number % 2:
            at = random.choice(run.in_hdf5)
        sent = random.choice([signal.SIGINT, signal.SIGTERM])
        stopped = ended(work, Moments(at, sent))
        if stopped.n <= at:  # a run has a few calls more or less, and its last one ends it
            continue
        assert stopped.code == (0 if is_complete(name, out) else 128 + sent), (at, stopped)
        assert not re.search("Traceback|Error|ignored", stopped.printed), (at, stopped)
        files = {file.name for file in out.parent.rglob("*")}
        if is_complete(name, out):
            assert content(out) == whole, at
            continue
        assert not any(file.endswith(ENDING) for file in files), (at, files)
        again = ended(work, Moments(0))
        assert (again.code, content(out)) == (0, whole), (at, again)
        assert {file.name for file in out.parent.iterdir()} <= {out.name, ".out.lock"}, at


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["uses", "score", "elmo", "bilm-encode"])
def test_after_the_output(
    name: str, sent: signal.Signals, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: a run whose output is in place has succeeded. The signal comes while the
    output is moved there."""
    work, replace = command(name, inputs, tmp_path / "out"), os.replace

    def move(source: os.PathLike, target: os.PathLike) -> None:
        replace(source, target)
        if Path(target) == tmp_path / "out":
            signal.raise_signal(sent)

    monkeypatch.setattr(os, "replace", move)
    assert ended(work, Moments(0)).code == 0
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["out"]


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


def _bar_that_is_not_whole(sent: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tqdm, "_get_free_pos", lambda *_: signal.raise_signal(sent))
        tqdm([], file=io.StringIO())


LOSES = [_deleted, _replaced, _ignored, _bar_that_is_not_whole]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lose", LOSES)
def test_a_lost_error(
    lose: Callable[[int], None], sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
