"""Damages files, for tests that show that a damaged file never gives a wrong number."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from elmo_plugin.checks import InputError

BLOCK = 512
"""A disk's sector."""


def damage(data: bytes, random: Random) -> tuple[str, bytes]:
    """Damage a whole file, not empty, as a disk, a transfer or a kill does. Return a description
    for the failure message, and other bytes than `data`."""
    while True:
        way = random.choice(WAYS)
        place = random.randrange(len(data))
        damaged = way(data, place, random)
        if damaged != data:
            return f"{way.__name__.lstrip('_')} at byte {place} of {len(data)}", damaged


def check_damaged(
    files: Sequence[Path], read: Callable[[], Any], cases: Iterable[Random], names: str = ""
) -> int:
    """Damage one of the files in each of the cases. `read` must raise an `InputError`, in which
    `names` is, by default the file's path, or return the same as for whole files, because not all
    bytes of a file matter. Return how often it raised the error."""
    expected, n_errors = read(), 0
    for random in cases:
        file = random.choice(files)
        whole = file.read_bytes()
        way, damaged = damage(whole, random)
        file.write_bytes(damaged)
        try:
            found = read()
        except InputError as error:
            assert (names or str(file)) in str(error), f"{file.name}: {way}"
            n_errors += 1
        else:
            assert found == expected, f"{file.name}: {way}"
        file.write_bytes(whole)
    return n_errors


def _flipped_bit(data: bytes, place: int, random: Random) -> bytes:
    return _replaced(data, place, bytes([data[place] ^ 1 << random.randrange(8)]))


def _random_bytes(data: bytes, place: int, random: Random) -> bytes:
    return _replaced(data, place, random.randbytes(random.randrange(1, 64)))


def _zeroed_sector(data: bytes, place: int, random: Random) -> bytes:
    return _replaced(data, place // BLOCK * BLOCK, bytes(BLOCK))


def _swapped_sector(data: bytes, place: int, random: Random) -> bytes:
    other = random.randrange(len(data)) // BLOCK * BLOCK
    return _replaced(data, place // BLOCK * BLOCK, data[other : other + BLOCK])


def _truncated(data: bytes, place: int, random: Random) -> bytes:
    return data[:place]


def _missing_run(data: bytes, place: int, random: Random) -> bytes:
    return data[:place] + data[place + random.randrange(1, 64) :]


def _replaced(data: bytes, place: int, run: bytes) -> bytes:
    """Return `data` with `run` written over a part of it, at the same length."""
    run = run[: len(data) - place]
    return data[:place] + run + data[place + len(run) :]


WAYS = (
    _flipped_bit,
    _flipped_bit,  # what nothing but a checksum notices comes more often
    _flipped_bit,
    _random_bytes,
    _zeroed_sector,
    _swapped_sector,
    _truncated,
    _missing_run,
)
