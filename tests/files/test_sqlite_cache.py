"""A key has its own value or none, however the file is damaged."""

import logging
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from random import Random

import pytest

from elmo_plugin.files import sqlite_cache
from elmo_plugin.files.sqlite_cache import SQLiteCache
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


def test_a_damaged_file(full, tmp_path, fuzz):
    """No value is wrong and nothing is raised, with a new instance and with one that has used the
    file before. Most of what is put afterwards is found."""
    data = full.file.read_bytes()
    n_found = n_found_then = 0
    for number, random in enumerate(fuzz.cases(150), start=1):
        folder = tmp_path / str(number)
        folder.mkdir()
        cache = open_cache(folder)
        damaged = damage(data, random)[1]
        cache.file.write_bytes(damaged)
        n_found += found(cache)
        cache.put(VALUES)
        n_found_then += found(cache)
        cache.file.write_bytes(damaged)
        found(cache)
        cache.file.unlink()
    assert len(VALUES) * number / 2 < n_found < n_found_then


def test_values_of_other_keys(full):
    """An index that points to another entry finds nothing."""
    with sqlite3.connect(full.file) as database:
        database.execute("UPDATE entries SET value = (SELECT max(value) FROM entries)")
    database.close()
    assert found(full) == 1
    full.put(VALUES)
    assert found(full) == len(VALUES)


@pytest.mark.parametrize("value", [None, 1, 1.5, "text", "\udcff", b"", b"abc"])
def test_values_of_other_types(full, value):
    """Values of other types count as absent, and other entries are found."""
    key = list(VALUES)[3]
    with sqlite3.connect(full.file) as database:
        database.execute(
            "UPDATE entries SET value = CAST(? AS TEXT) WHERE key = ?"
            if value == "\udcff"
            else "UPDATE entries SET value = ? WHERE key = ?",
            [b"\xff" if value == "\udcff" else value, key],
        )
    database.close()
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


def test_a_damaged_journal(full, tmp_path, fuzz):
    """The files that a killed writer left give no wrong value, wherever they are damaged."""
    in_child(write_and_die, full)
    files = [full.file, full.file.with_name("cache.sqlite-journal")]
    whole = [file.read_bytes() for file in files]
    n_found = 0
    for random in fuzz.cases(60):
        chosen = random.randrange(2)
        for k, (file, data) in enumerate(zip(files, whole)):
            file.write_bytes(damage(data, random)[1] if k == chosen else data)
        cache = open_cache(tmp_path)
        n_found += found(cache) + found(cache, OTHERS)
        cache.put({**VALUES, **OTHERS})
        n_found += found(cache) + found(cache, OTHERS)
    assert n_found


def flip_bits(file, seed):
    random = Random(seed)
    with open(file, "r+b", buffering=0) as opened:
        while True:
            size = os.fstat(opened.fileno()).st_size
            if not size:
                continue
            place = random.randrange(size)
            os.pwrite(opened.fileno(), random.randbytes(1), place)
            if not random.randrange(50):
                os.ftruncate(opened.fileno(), place)


def test_damage_while_it_is_read_and_written(full, tmp_path, fuzz):
    """No value is wrong and nothing crashes while another process damages the file."""
    data = full.file.read_bytes()
    for number, _ in enumerate(fuzz.cases(3)):
        process = FORK.Process(target=flip_bits, args=(full.file, number))
        process.start()
        for _ in range(20):
            full.file.write_bytes(data)
            cache = open_cache(tmp_path)
            for _ in range(5):
                found(cache)
                cache.put(VALUES)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL


def test_damage_in_the_schema(full, tmp_path, warnings):
    """SQLite quotes the damaged text in its message, which is then not UTF-8. There is one warning,
    and nothing is found."""
    data = full.file.read_bytes()
    full.file.write_bytes(data.replace(b"tableentries", b"tableentrie\x84"))
    cache = open_cache(tmp_path)
    assert found(cache) == 0
    cache.put(VALUES)
    assert len(warnings()) == 1


def test_bounded(tmp_path, warnings):
    """The file stays below the bound, and the values that it had room for stay readable. There is
    one warning, however often more is put."""
    cache = open_cache(tmp_path, size=1_000_000)
    for _ in range(2):
        for key, value in {**VALUES, **OTHERS}.items():
            cache.put({key: value})
    assert 500_000 < cache.file.stat().st_size <= 1_000_000
    assert found(cache) == len(VALUES)
    assert found(cache, OTHERS) == 1
    [warning] = warnings()
    assert f"{cache.file}: the cache cannot store more (database or disk is full)" in warning


def test_a_value_above_the_limit_of_sqlite(tmp_path, monkeypatch, warnings):
    """It is not stored, and all others are, without a warning."""
    monkeypatch.setattr(sqlite_cache, "MOST_BYTES", 150_000)
    cache = open_cache(tmp_path)
    cache.put(VALUES)
    assert found(cache) == len(VALUES) - 1 and not warnings()


def test_a_full_disk(full, warnings):
    """A file size limit simulates the full disk. There is one warning, and the values in the file
    are found."""

    def run():
        limit = full.file.stat().st_size + 100_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for _ in range(2):
            full.put(OTHERS)
        assert found(full, OTHERS) == 0 and found(full) == len(VALUES)
        [warning] = warnings()
        assert "cannot store more (" in warning

    assert in_child(run) == 0
    assert found(full) == len(VALUES)


def test_little_memory(full):
    """A cache of 10 GiB does not need as much address space, as under `ulimit -v`."""

    def run():
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + 2**28
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        cache = SQLiteCache(full.file, 10 * 2**30)
        cache.put(OTHERS)
        assert found(cache, OTHERS) == len(OTHERS) and found(cache) == len(VALUES)

    assert in_child(run) == 0


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


def another_database(file):
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE entries (name TEXT)")
    database.close()


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda file: file.write_text("mine" * 10_000), "file is not a database"),
        (lambda file: file.mkdir(), "unable to open database file"),
        (another_database, "no such column: value"),
    ],
)
def test_a_file_of_another_kind(tmp_path, warnings, make, reason):
    """The file stays as it is, and there is one warning that names it."""
    cache = open_cache(tmp_path)
    make(cache.file)
    before = cache.file.stat().st_size
    for _ in range(2):
        cache.put(VALUES)
        assert found(cache) == 0
        cache.put(VALUES)
    assert cache.file.stat().st_size == before
    for warning in warnings():
        assert f"{cache.file}: the cache" in warning
    assert reason in warnings()[-1] or reason in warnings()[0]
    assert len(warnings()) <= 2


def test_a_folder_that_turns_into_a_file(full, tmp_path, warnings):
    """Nothing is raised, and there is one warning."""
    full.file.unlink()
    tmp_path.rmdir()
    tmp_path.write_text("mine")
    assert found(full) == 0
    full.put(VALUES)
    assert len(warnings()) == 1


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


def test_many_processes_at_once(tmp_path):
    """The processes make the file together, each finds what it put, and none is refused."""
    processes = [FORK.Process(target=use, args=(tmp_path / "new", seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4


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
    """The children use the cache themselves, although the threads that were using it are not there
    in them."""
    stop = threading.Event()

    def keep_using(seed):
        while not stop.is_set():
            use(tmp_path, seed)

    threads = [threading.Thread(target=keep_using, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(use, tmp_path, seed) for seed in range(4)] == [0] * 4
    finally:
        stop.set()
        for thread in threads:
            thread.join()
