"""
A cache in an SQLite database. Several processes may read and write it at the same time, and it
stays intact if a process is killed. It should be on a local disk, because SQLite needs file locks,
which many network file systems lack.

The database is opened for each transaction, which takes 0.1 ms. Therefore threads never share a
connection, forked processes never inherit one, and the folder may be removed at any time. The file
is not memory-mapped, because reading a truncated mapped file kills the process.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from elmo_plugin.files.digest import CHECKSUM_SIZE, checksum
from elmo_plugin.files.file_lock import check_locks
from elmo_plugin.files.fork import at_fork

logger = logging.getLogger(__name__)

TABLE = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB)"
PAGE_SIZE = 2**15
"""Page size in bytes. Large pages make large values faster to read."""
FAULTS = (OSError, sqlite3.Error, UnicodeDecodeError)
"""`UnicodeDecodeError`: damage can corrupt SQLite's error messages."""
MOST_BYTES = 10**9 - CHECKSUM_SIZE - 1_000
"""Maximum size of a value. SQLite has this limit for a row, with its key."""
MAX_PAGES = 2**32 - 2
"""Maximum number of pages that SQLite supports."""
LOCK_SECONDS = 10.0
"""Timeout for a lock. Other processes hold it for milliseconds unless they are stopped."""


class SQLiteCache:
    """
    A cache of bounded size that never raises an error and never returns a wrong value. Each value
    is stored with a checksum of key and value. A value whose checksum does not match counts as
    absent, and `put` replaces it. After a database error, the process logs one warning and stops
    using the cache. `file` and its folder are created on first use. Once the file has `size` bytes,
    `put` does nothing.
    """

    def __init__(self, file: Path, size: float) -> None:
        self.file = file
        self.max_pages = max(1, int(min(size / PAGE_SIZE, MAX_PAGES)))
        self.is_readable = self.is_writable = True
        self._has_locks = False  # before the first use, this is not known

    def get(self, keys: Sequence[bytes]) -> Iterator[memoryview | None]:
        """Yield the value of each key, or `None` if it is absent or damaged."""
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
        """Store or replace values in one transaction."""
        if not self.is_writable:
            return
        rows = [
            (key, value + checksum([key, value]))
            for key, value in values.items()
            if len(value) <= MOST_BYTES
        ]
        try:
            with self._open() as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
                database.execute("COMMIT")
        except FAULTS as error:
            self.is_writable = False
            limit = f"{self.max_pages * PAGE_SIZE / 2**30:.3g} GiB"
            self._warn(f"of at most {limit} cannot store more", error)

    def _warn(self, state: str, error: Exception) -> None:
        logger.warning(
            f"{self.file}: the cache {state} ({error}); from now on this process computes what is "
            "not there. The file may be removed."
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with _alone, self._connect() as database:
            # Damage can turn a blob into invalid UTF-8 text.
            database.text_factory = bytes
            for setting in (
                f"page_size = {PAGE_SIZE}",
                f"max_page_count = {self.max_pages}",
                "cache_size = -512",  # KiB, which fit into the CPU cache
                "synchronous = OFF",  # checksums detect values that a power failure left unwritten
                "trusted_schema = OFF",
            ):
                database.execute(f"PRAGMA {setting}")
            database.execute(TABLE)
            yield database

    def _connect(self) -> closing[sqlite3.Connection]:
        if not self._has_locks:  # SQLite would wait for them
            if not self.file.exists():
                self.file.touch()
            check_locks(self.file)
            self._has_locks = True
        return closing(sqlite3.connect(self.file, LOCK_SECONDS, isolation_level=None))


def _checked(key: bytes, row: tuple | None) -> memoryview | None:
    if row is None or not isinstance(row[0], bytes):
        return None
    stored = memoryview(row[0])
    value = stored[:-CHECKSUM_SIZE]
    return value if stored[-CHECKSUM_SIZE:] == checksum([key, value]) else None


_alone = threading.Lock()
"""
Held while SQLite runs or the file is open otherwise. A child that is forked while another thread
holds one of SQLite's locks would wait for it forever, and a process that closes the file loses the
locks that its other threads have on it (https://sqlite.org/howtocorrupt.html, 2.2).
"""
at_fork(before=_alone.acquire, after_in_parent=_alone.release, after_in_child=_alone.release)
