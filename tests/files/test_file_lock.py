from pathlib import Path

import pytest
from filelock import Timeout

from elmo_plugin.files.file_lock import FileLock
from tests.ending import ends


@ends
@pytest.mark.parametrize("folder", ["/proc", "/proc/gone", "/sys", "file", "dead"])
def test_a_lock_file_that_cannot_be_created(folder: str, tmp_path: Path) -> None:
    """By definition: the operating system's error. `filelock` waits forever in /proc, whose error
    is that the file is missing."""
    (tmp_path / "file").touch()
    (tmp_path / "dead").symlink_to("/proc/gone")
    with pytest.raises(OSError, match=r"\[Errno \d+\]"):
        FileLock(tmp_path / folder / ".lock").acquire()


def test_a_lock_excludes_others(tmp_path: Path) -> None:
    """By definition."""
    with FileLock(tmp_path / "new" / ".lock"), pytest.raises(Timeout):
        FileLock(tmp_path / "new" / ".lock", timeout=0).acquire()
