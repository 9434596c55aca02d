"""
AllenNLP reads and writes a vocabulary, and `cached_path` a download, under a lock file, for which
`filelock` waits forever in a folder such as /proc, where no file can be created. Importing this
raises the operating system's error instead. Remove it when `filelock` does.
"""

from typing import Any

from cached_path.file_lock import FileLock

from elmo_plugin.files.file_lock import create_lock_file

_acquire = FileLock.acquire


def _acquire_existing(self: FileLock, *args: Any, **kwargs: Any) -> Any:
    create_lock_file(self.lock_file)
    return _acquire(self, *args, **kwargs)


FileLock.acquire = _acquire_existing  # type: ignore[method-assign]
