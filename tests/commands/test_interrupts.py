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
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from tqdm import tqdm

from elmo_plugin.__main__ import run
from elmo_plugin.commands import score
from elmo_plugin.corpora import dump, uses
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files import interrupts
from elmo_plugin.files.atomic_write import ENDING
from elmo_plugin.files.interrupts import SIGNALS, _loses_errors, end_command, interrupts_kept
from tests.conftest import python

FORK = multiprocessing.get_context("fork")
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
    arguments = {
        "uses": ["uses", text, words, str(out), "--archive-file", model],
        "score": ["score", text, "--output-file", str(out), "--archive-file", model],
        "elmo": ["elmo", text, str(out), "--all", "--batch-size", "1", "--archive-file", model],
        "bilm-encode": ["bilm-encode", text, str(out)],
    }
    return lambda: run(arguments[name])


class Moments:
    """Counts the calls of functions, and sends a signal at the call number `at`. `lossy`: the calls
    in which Python or HDF5 would ignore an error."""

    def __init__(self, at: int | None = None, sent: signal.Signals = signal.SIGINT) -> None:
        self.at, self.sent = at, sent
        self.n = 0
        self.lossy: list[int] = []

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        if event == "return":  # also of a generator that is deleted, where no signal is handled
            return
        self.n += 1
        if self.n == self.at:
            signal.raise_signal(self.sent)
        elif self.at is None and _loses_errors(frame):
            self.lossy.append(self.n)


class Ended(NamedTuple):
    code: int
    printed: str
    n: int
    lossy: list[int]


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
            code = 130
        except SystemExit as end:
            code = end.code
        finally:
            sys.setprofile(None)
    send.send(Ended(code or 0, printed.getvalue(), moments.n, moments.lossy))
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
    """Whether the output is in place. That of `save` has several files."""
    return name != "save" and out.exists()


def content(out: Path) -> dict[str, bytes]:
    files = sorted(out.rglob("*")) if out.is_dir() else [out]
    return {str(x.relative_to(out)): x.read_bytes() for x in files if x.is_file()}


@pytest.mark.parametrize(
    "seed, n", [(0, 2), *(pytest.param(seed, 50, marks=pytest.mark.long) for seed in range(1, 7))]
)
@pytest.mark.parametrize("name", ["uses", "score", "elmo", "save", "bilm-encode"])
def test_moments(name: str, seed: int, n: int, inputs: Path, tmp_path: Path) -> None:
    """The exit code of a shell, no error, and nothing but what the next run removes. The same
    command then gives the files of an uninterrupted run. Half of the moments are in h5py and in
    destructors. If the output was there at the moment, it is whole, and the run has succeeded."""
    out = tmp_path / "folder" / "out"
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
        at = random.choice(run.lossy) if run.lossy and number % 2 else random.randrange(run.n) + 1
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
        assert {file.name for file in out.parent.iterdir()} <= {"out", ".out.lock"}, at


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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle SIGINT, which shells let their background processes ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Deleted:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def _deleted() -> None:
    del [Deleted()][0]
    for _ in range(1000):
        time.sleep(0.01)


def _replaced() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("an error of a library") from None


def _ignored() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("lose", [_deleted, _replaced, _ignored])
def test_a_lost_error(lose: Callable[[], None]) -> None:
    """By definition: an interrupt in a destructor, whose errors Python ignores, or which a library
    ignores or turns into another error, is an interrupt."""
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        lose()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_kept():
        pass


@pytest.mark.usefixtures("interruptible")
def test_a_bar_that_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: an interrupt while tqdm makes a bar comes when it is whole, because deleting
    another one prints an error that Python ignores."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    def interrupted(*_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    monkeypatch.setattr(tqdm, "_get_free_pos", interrupted)
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        tqdm([], file=io.StringIO())
        for _ in range(1000):
            time.sleep(0.01)
    gc.collect()
    assert not ignored
