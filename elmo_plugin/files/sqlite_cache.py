"""
Values on disk in one SQLite database, which any number of processes may read and write at once and
which a kill leaves whole. It should lie on a local disk, because SQLite relies on file locks, which
many network disks lack.

A database is opened for each transaction, which takes a tenth of a millisecond: no connection is
ever shared by threads or inherited by a forked process, and the folder may be removed at any time.
Nothing is mapped into memory, so that a file that is cut short cannot kill the process.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from elmo_plugin.files.checksum import CHECKSUM_SIZE, checksum

logger = logging.getLogger(__name__)

TABLE = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB)"
PAGE_SIZE = 2**15
"""Bytes. Values of several pages are read faster from large pages."""
MAX_PAGES = 2**32 - 2
"""SQLite's own limit."""
MAX_VALUE = 10**9 - 1
"""Bytes with the checksum; SQLite's own limit. A longer value is not stored."""
LOCK_SECONDS = 10.0
"""Time to wait for another process, which holds the lock for milliseconds unless it was stopped."""


class SQLiteCache:
    """
    A bounded cache that never stops a run and never gives a wrong value. Each value is stored with
    a checksum of its key and itself: one that does not match, whether it was damaged or is found
    under another's key, counts as absent, and `put` replaces it. A database that cannot be used
    is left alone from then on, after one warning.

    # Parameters

    file : `Path`
        The database; it and its folder are made when they are first needed.
    size : `float`
        The most bytes that the file may take. When it is full, `put` does nothing.
    """

    def __init__(self, file: Path, size: float) -> None:
        self.file = file
        self.max_pages = max(1, int(min(size / PAGE_SIZE, MAX_PAGES)))
        self.is_readable = self.is_writable = True

    def get(self, keys: Sequence[bytes]) -> Iterator[memoryview | None]:
        """Yields the value of each key, or `None` where there is none that is undamaged."""
        n_left = len(keys)
        try:
            if self.is_readable:
                with self._open() as database:
                    database.execute("BEGIN")
                    for key in keys:
                        rows = database.execute("SELECT value FROM entries WHERE key = ?", [key])
                        yield _checked(key, rows.fetchone())
                        n_left -= 1
        except (OSError, sqlite3.Error) as error:
            self.is_readable = self.is_writable = False
            self._warn("cannot be used", error)
        yield from [None] * n_left

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Stores or replaces all values, or none."""
        if not self.is_writable:
            return
        rows = [(key, value + checksum([key, value])) for key, value in values.items()]
        try:
            with self._open() as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?)",
                    (row for row in rows if len(row[1]) <= MAX_VALUE),
                )
                database.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            self.is_writable = False
            self._warn("takes no more", error)

    def _warn(self, what: str, error: Exception) -> None:
        logger.warning(
            "%s: the cache %s (%s); from now on this process computes what is not found there. "
            "The file may be removed.",
            self.file,
            what,
            error,
        )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with (
            _no_fork,
            closing(sqlite3.connect(self.file, LOCK_SECONDS, isolation_level=None)) as database,
        ):
            # Damage can turn a blob into a text, which need not be valid UTF-8.
            database.text_factory = bytes
            for setting in (
                f"page_size = {PAGE_SIZE}",
                f"max_page_count = {self.max_pages}",
                "cache_size = -512",  # KiB: what is read stays in the processor's cache
                "synchronous = OFF",  # checksums detect what a power failure leaves unwritten
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
"""Held while SQLite runs, so that no process is forked while another thread holds SQLite's locks,
which would never be released in the child."""
os.register_at_fork(
    before=_no_fork.acquire,
    after_in_parent=_no_fork.release,
    after_in_child=_no_fork.release,
)
