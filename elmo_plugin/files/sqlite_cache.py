"""
A cache in an SQLite database, which several processes may read and write at the same time and which
stays intact if a process is killed. It should be on a local disk, because SQLite needs file locks,
which many network disks lack.

The database is opened for each transaction, which takes 0.1 ms. So threads never share a
connection, a forked process never inherits one, and the folder may be removed at any time. The file
is not mapped into memory, because reading a mapped file that was truncated kills the process.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from elmo_plugin.files.digest import CHECKSUM_SIZE, checksum

logger = logging.getLogger(__name__)

TABLE = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB)"
PAGE_SIZE = 2**15
"""Page size in bytes. Large pages make it faster to read values of many bytes."""
FAULTS = (OSError, sqlite3.Error, UnicodeDecodeError)
"""Damage can get into SQLite's own messages, which Python then cannot decode."""
MAX_PAGES = 2**32 - 2
"""The highest number of pages that SQLite supports."""
LOCK_SECONDS = 10.0
"""Time to wait for a lock, which other processes hold for milliseconds unless they are stopped."""


class SQLiteCache:
    """
    A cache of bounded size that never raises an error and never returns a wrong value. Each value
    is stored with a checksum of the key and the value. A value whose checksum does not match counts
    as absent, and `put` replaces it. A database that raises an error is no longer used by this
    process, after one warning.

    # Parameters

    file : `Path`
        The database. It and its folder are created when they are first used.
    size : `float`
        The highest size of the file in bytes. Once it is full, `put` does nothing.
    """

    def __init__(self, file: Path, size: float) -> None:
        self.file = file
        self.max_pages = max(1, int(min(size / PAGE_SIZE, MAX_PAGES)))
        self.is_readable = self.is_writable = True

    def get(self, keys: Sequence[bytes]) -> Iterator[memoryview | None]:
        """Yields the value of each key, or `None` if it is absent or damaged."""
        n_left = len(keys)
        try:
            if self.is_readable:
                with self._open() as database:
                    database.execute("BEGIN")
                    for key in keys:
                        rows = database.execute("SELECT value FROM entries WHERE key = ?", [key])
                        yield _checked(key, rows.fetchone())
                        n_left -= 1
        except FAULTS as error:
            self.is_readable = self.is_writable = False
            self._warn("cannot be used", error)
        yield from [None] * n_left

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Stores or replaces values in one transaction."""
        if not self.is_writable:
            return
        rows = [(key, value + checksum([key, value])) for key, value in values.items()]
        try:
            with self._open() as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
                database.execute("COMMIT")
        except FAULTS as error:
            self.is_writable = False
            self._warn("takes no more", error)

    def _warn(self, state: str, error: Exception) -> None:
        logger.warning(
            "%s: the cache %s (%s); from now on this process computes what is not there. The file "
            "may be removed.",
            self.file,
            state,
            error,
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with (
            _no_fork,
            closing(sqlite3.connect(self.file, LOCK_SECONDS, isolation_level=None)) as database,
        ):
            # Damage can turn a blob into text that is not valid UTF-8.
            database.text_factory = bytes
            for setting in (
                f"page_size = {PAGE_SIZE}",
                f"max_page_count = {self.max_pages}",
                "cache_size = -512",  # KiB, which fit into the processor's cache
                "synchronous = OFF",  # checksums detect values that a power failure left unwritten
                "trusted_schema = OFF",
            ):
                database.execute(f"PRAGMA {setting}")
            database.execute(TABLE)
            yield database


def _checked(key: bytes, row: tuple | None) -> memoryview | None:
    if row is None or not isinstance(row[0], bytes):
        return None
    stored = memoryview(row[0])
    value = stored[:-CHECKSUM_SIZE]
    return value if stored[-CHECKSUM_SIZE:] == checksum([key, value]) else None


_no_fork = threading.Lock()
"""Held while SQLite runs: a child that is forked while another thread holds one of SQLite's locks
would wait for it forever."""
os.register_at_fork(
    before=_no_fork.acquire,
    after_in_parent=_no_fork.release,
    after_in_child=_no_fork.release,
)
