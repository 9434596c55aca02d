import errno
import fcntl
import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from elmo_plugin.files import interrupts
from elmo_plugin.files.atomic_write import DiskFullError, _remove_leftovers, atomic_write
from elmo_plugin.files.torch_file import save_torch_file


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
@pytest.mark.parametrize("mode", [None, 0o600])
def test_a_file_has_the_mode_of_any_file(mode: int | None, umask: int, tmp_path: Path) -> None:
    """The expected mode is that of a file that Python's `open` creates under the same umask, or
    writes again."""
    before = os.umask(umask)
    try:
        for name in ("expected", "found"):
            if mode is not None:
                (tmp_path / name).touch(mode)
        (tmp_path / "expected").write_text("a")
        with atomic_write(tmp_path / "found") as temporary:
            temporary.write_text("a")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("expected", "found")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays(exists: bool, tmp_path: Path) -> None:
    """By definition, as after a write by `open`: the file at the end of the links is written."""
    (tmp_path / "below").mkdir()
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "other").symlink_to("below/file")
    if exists:
        (tmp_path / "below" / "file").write_text("old")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").readlink() == Path("other")
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["file"]
    assert (tmp_path / "below" / "file").read_text() == "new"


def test_a_file_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    """By definition: all bytes are synced, by the function that writes them and before the file is
    renamed. Otherwise a power failure may leave an empty file."""
    calls: list[object] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda number: calls.append(os.fstat(number).st_size))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("replace") or replace(*names))
    with atomic_write(tmp_path / "file") as temporary:
        save_torch_file({"a": 1}, temporary)
        n_synced = len(calls)
    size = (tmp_path / "file").stat().st_size
    assert n_synced == 1 and calls == [size, size, "replace"]


@pytest.mark.parametrize(
    "error, expected",
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.EIO, "broken"), OSError),
        (OSError(errno.ENOSPC, "full"), DiskFullError),
    ],
)
def test_nothing_is_left_after_an_error(error: Any, expected: Any, tmp_path: Path) -> None:
    """By the definition: the old file stays, and no temporary file; that of a full disk has a type
    of its own."""
    (tmp_path / "file").write_text("old")
    with pytest.raises(expected) as raised, atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
        raise error
    assert type(raised.value) is expected
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_signal_while_the_output_is_moved(tmp_path, monkeypatch):
    """By definition: the output is there, and the command does not end as interrupted."""
    replace = os.replace
    monkeypatch.setattr(interrupts, "_is_output_there", False)
    moves = (lambda *names: interrupts.end_command(signal.SIGINT), replace)
    monkeypatch.setattr(os, "replace", lambda *names: [move(*names) for move in moves])
    (tmp_path / "temporary").touch()
    interrupts.replace_output(tmp_path / "temporary", tmp_path / "out")
    assert (tmp_path / "out").exists() and interrupts.received is None


def _stop_in_a_write(path: Path, send: Connection, wait: Connection) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        send.send(temporary)
        wait.recv()


def test_what_a_killed_process_left(tmp_path: Path) -> None:
    """By definition: the next write removes the temporary file of a process that was killed, but
    not that of one that still writes, nor files of similar names."""
    others = [tmp_path / name for name in (".file.20240101", ".file.0123456x.tmp", "file.tmp")]
    for other in others:
        other.touch()
    here, there = get_context("fork").Pipe()
    arguments = (tmp_path / "file", there, there)
    process = get_context("fork").Process(target=_stop_in_a_write, args=arguments)
    process.start()
    temporary = here.recv()
    for text, is_left in (("a", True), ("b", False)):
        with atomic_write(tmp_path / "file") as own:
            own.write_text(text)
        assert temporary.exists() is is_left
        assert (tmp_path / "file").read_text() == text
        process.kill()
        process.join()
    assert {*tmp_path.iterdir()} == {*others, tmp_path / "file"}


@pytest.mark.parametrize("exists", [True, False])
def test_two_processes_write_the_same_file(exists, tmp_path, monkeypatch):
    """By definition: a process that begins to write the same file removes no temporary file of one
    that still writes, not even between its creation and its lock."""
    file, flock, n_locks = tmp_path / "file", fcntl.flock, 0
    if exists:
        file.write_text("old")

    def lock(*arguments: Any) -> None:
        nonlocal n_locks
        n_locks += 1
        if n_locks == 1:
            _remove_leftovers(file)
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", lock)
    with atomic_write(file) as temporary:
        temporary.write_text("new")
        _remove_leftovers(file)
    assert n_locks > 3 and file.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
