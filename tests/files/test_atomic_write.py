import fcntl
import os
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from elmo_plugin.files.atomic_write import _remove_leftovers, atomic_write
from elmo_plugin.files.torch_file import save_torch_file


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_file_has_the_mode_of_any_new_file(umask: int, tmp_path: Path) -> None:
    """The expected mode is that of a file that Python's `open` creates under the same umask."""
    before = os.umask(umask)
    try:
        (tmp_path / "expected").write_text("a")
        with atomic_write(tmp_path / "found") as temporary:
            temporary.write_text("a")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("expected", "found")]
    assert modes[0] == modes[1]


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    """As a file that `open` writes again."""
    (tmp_path / "file").touch(0o600)
    with atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("a")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays(exists: bool, tmp_path: Path) -> None:
    """The expected result is that of a write to the same names by `open`."""
    for name in ("expected", "found"):
        folder = tmp_path / name
        (folder / "below").mkdir(parents=True)
        (folder / "link").symlink_to("other")
        (folder / "other").symlink_to("below/file")
        if exists:
            (folder / "below" / "file").write_text("old")
    (tmp_path / "expected" / "link").write_text("new")
    with atomic_write(tmp_path / "found" / "link") as temporary:
        temporary.write_text("new")
    for name in ("expected", "found"):
        assert (tmp_path / name / "link").readlink() == Path("other")
        assert [path.name for path in (tmp_path / name / "below").iterdir()] == ["file"]
        assert (tmp_path / name / "below" / "file").read_text() == "new"


def test_a_file_is_on_the_disk_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    """By the definition: the old file stays, and no temporary file."""
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


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
def test_two_processes_write_the_same_file(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
