"""A key has its own value or none, however the file is damaged."""

import logging
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from random import Random

import pytest

from elmo_plugin.files import sqlite_cache
from elmo_plugin.files.sqlite_cache import SQLiteCache
from tests.conftest import file_size_limit
from tests.damage import damage

FORK = multiprocessing.get_context("fork")
VALUES = {
    bytes([number] * 32): Random(number).randbytes(size)
    for number, size in enumerate([0, 1, 3_000, 3_000, 3_000, 40_000, 100_000, 200_000])
}
"""Some that share a page, and some of several pages."""
OTHERS = {bytes([number] * 32): Random(number).randbytes(300_000) for number in range(10, 15)}


def open_cache(folder, size=2**30):
    return SQLiteCache(folder / "cache.sqlite", size)


def found(cache, values=VALUES):
    """Return how many of the values are found, and check that each of them is right."""
    stored = list(cache.get(list(values)))
    assert len(stored) == len(values)
    for value, expected in zip(stored, values.values()):
        assert value is None or value == expected
    return len(values) - stored.count(None)


def in_child(function, *arguments):
    """Return the exit code of a forked process that calls the function."""
    process = FORK.Process(target=function, args=arguments)
    process.start()
    process.join(60)
    process.kill()
    process.join()
    return process.exitcode


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def full(tmp_path):
    """Return a cache that has all values."""
    cache = open_cache(tmp_path)
    cache.put(VALUES)
    assert found(cache) == len(VALUES)
    return cache


def test_stored_values_are_found(full):
    """Another instance finds all values too. Absent keys give `None` in their places, and a value
    that is put again is replaced."""
    again = SQLiteCache(full.file, 2**30)
    keys = [b"none", *VALUES, b"nor this"]
    assert list(again.get(keys)) == [None, *VALUES.values(), None]
    again.put({keys[3]: b"another"})
    assert list(full.get(keys[2:4])) == [VALUES[keys[2]], b"another"]
    assert list(full.get([])) == []


@pytest.mark.parametrize("is_killed, n_least", [(False, len(VALUES) // 2), (True, 1)])
def test_damaged_files(full, tmp_path, fuzz, is_killed, n_least):
    """No value is wrong and nothing is raised, with a new instance and with one that has used the
    file before, wherever it is damaged, or the files that a killed writer left. Most of what is put
    afterwards is found, unless SQLite has given up the files."""
    if is_killed:
        in_child(write_and_die, full)
    whole = {file: file.read_bytes() for file in tmp_path.iterdir()}
    n_cases = n_found = n_found_then = 0
    for random in fuzz.cases(100):
        n_cases += 1
        file = random.choice(list(whole))
        damaged = {**whole, file: damage(whole[file], random)[1]}

        def write(damaged=damaged):
            for file, data in damaged.items():
                file.write_bytes(data)

        write()
        cache = open_cache(tmp_path)
        n_found += found(cache)
        found(cache, OTHERS)
        cache.put({**VALUES, **OTHERS})
        n_found_then += found(cache)
        found(cache, OTHERS)
        write()
        found(cache)
    assert n_least * n_cases < n_found
    assert n_found < n_found_then or is_killed


def execute(cache, *statement):
    with sqlite3.connect(cache.file) as database:
        database.execute(*statement)
    database.close()


def test_values_of_other_keys(full):
    """An index that points to another entry finds nothing."""
    execute(full, "UPDATE entries SET value = (SELECT max(value) FROM entries)")
    assert found(full) == 1
    full.put(VALUES)
    assert found(full) == len(VALUES)


@pytest.mark.parametrize(
    "value", ["NULL", "1", "1.5", "'text'", "CAST(x'ff' AS TEXT)", "x''", "x'616263'"]
)
def test_values_of_other_types(full, value):
    """Values of other types count as absent, and other entries are found."""
    execute(full, f"UPDATE entries SET value = {value} WHERE key = ?", [list(VALUES)[3]])
    assert found(full) == len(VALUES) - 1


def write_and_die(cache):
    """Write more than SQLite keeps in memory, so that some of it is in the file already."""
    with cache._open() as database:
        database.execute("BEGIN IMMEDIATE")
        rows = [(key, value + bytes(4)) for key, value in {**VALUES, **OTHERS}.items()]
        database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", rows)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_that_is_killed(full):
    """The earlier values are found, and none of those that were being written."""
    before = full.file.stat().st_size
    assert in_child(write_and_die, full) == -signal.SIGKILL
    assert full.file.with_name("cache.sqlite-journal").stat().st_size > 0
    assert full.file.stat().st_size > before
    assert found(full) == len(VALUES)
    assert found(full, OTHERS) == 0
    full.put(OTHERS)
    assert found(full, OTHERS) == len(OTHERS)
    assert [file.name for file in full.file.parent.iterdir()] == ["cache.sqlite"]


def test_bounded(tmp_path, warnings):
    """The file stays below the bound, and the values that it had room for stay readable. There is
    one warning, however often more is put. A value above SQLite's own limit is not stored, and all
    others are, without a warning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_cache, "MOST_BYTES", 150_000)
        cache = open_cache(tmp_path, size=1_000_000)
        cache.put(VALUES)
    assert found(cache) == len(VALUES) - 1 and not warnings()
    for _ in range(2):
        for key, value in {**VALUES, **OTHERS}.items():
            cache.put({key: value})
    assert 500_000 < cache.file.stat().st_size <= 1_000_000
    assert found(cache) == len(VALUES)
    assert found(cache, OTHERS) == 1
    [warning] = warnings()
    assert f"{cache.file}: the cache of at most 0.000916 GiB cannot store more (data" in warning


def test_a_full_disk(full, warnings):
    """A file size limit simulates the full disk. There is one warning, and the values in the file
    are found."""

    def run():
        with file_size_limit(full.file.stat().st_size + 100_000):
            for _ in range(2):
                full.put(OTHERS)
        assert found(full, OTHERS) == 0 and found(full) == len(VALUES)
        [warning] = warnings()
        assert "cannot store more (" in warning

    assert in_child(run) == 0
    assert found(full) == len(VALUES)


def test_a_lock_that_does_not_come_free(full, monkeypatch, warnings):
    """A process was stopped while it writes. There is one warning for the file, and then none."""
    monkeypatch.setattr(sqlite_cache, "LOCK_SECONDS", 0.05)
    with full._open() as database:
        database.execute("BEGIN EXCLUSIVE")
        sqlite_cache._alone.release()  # which another process would not hold
        try:
            for _ in range(2):
                assert found(full) == 0
                full.put(OTHERS)
        finally:
            sqlite_cache._alone.acquire()
    [warning] = warnings()
    assert f"{full.file}: the cache cannot be used (database is locked)" in warning


def damage_the_schema(cache):
    """SQLite quotes the damaged text in its message, which is then not UTF-8."""
    cache.put(VALUES)
    data = cache.file.read_bytes()
    cache.file.write_bytes(data.replace(b"tableentries", b"tableentrie\x84"))


def turn_the_folder_into_a_file(cache):
    cache.file.parent.rmdir()
    cache.file.parent.write_text("mine")


@pytest.mark.parametrize(
    "make, reason",
    [
        (damage_the_schema, "the cache"),
        (lambda cache: cache.file.write_text("mine" * 10_000), "file is not a database"),
        (lambda cache: cache.file.mkdir(), "unable to open database file"),
        (lambda cache: execute(cache, "CREATE TABLE entries (name TEXT)"), "no such column: value"),
        (turn_the_folder_into_a_file, "File exists"),
    ],
)
def test_a_file_of_another_kind(tmp_path, warnings, make, reason):
    """The file stays as it is, nothing is found or raised, and there is one warning about reading
    and maybe one about writing, which name it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    make(open_cache(folder))
    cache = open_cache(folder)
    before = cache.file.stat().st_size if folder.is_dir() else 0
    for _ in range(2):
        cache.put(VALUES)
        assert found(cache) == 0
    assert (cache.file.stat().st_size if folder.is_dir() else 0) == before
    assert 1 <= len(warnings()) <= 2
    assert all(f"{cache.file}: the cache" in warning for warning in warnings())
    assert any(reason in warning for warning in warnings())


def use(folder, seed):
    cache = open_cache(folder)
    random = Random(seed)
    values = {**VALUES, **OTHERS}
    for _ in range(15):
        some = {key: values[key] for key in random.sample(list(values), 4)}
        found(cache, some)
        cache.put(some)
        assert found(cache, some) == len(some)
    assert cache.is_readable and cache.is_writable


WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0).execute('BEGIN IMMEDIATE')"


def test_opening_it_keeps_the_locks_of_another_thread(tmp_path):
    """By SQLite's own locks: no other process may write during a transaction."""
    first, second = open_cache(tmp_path), open_cache(tmp_path)
    first.put(VALUES)
    with first._open() as database:
        database.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=second.put, args=(VALUES,))
        thread.start()
        thread.join(1)
        command = [sys.executable, "-c", WRITE, first.file]
        other = subprocess.run(command, capture_output=True, text=True)
        database.execute("ROLLBACK")
    thread.join()
    assert "database is locked" in other.stderr


def test_forked_while_threads_use_it(tmp_path):
    """Processes and threads make the file together, each finds what it put, and none is refused.
    The children use the cache themselves, although the threads that were using it are not there in
    them."""
    stop = threading.Event()

    def keep_using(seed):
        while not stop.is_set():
            use(tmp_path / "new", seed)

    threads = [threading.Thread(target=keep_using, args=(seed,)) for seed in range(3)]
    processes = [FORK.Process(target=use, args=(tmp_path / "new", seed)) for seed in range(4)]
    try:
        for started in (*threads, *processes):
            started.start()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0] * 4
    finally:
        stop.set()
        for thread in threads:
            thread.join()
