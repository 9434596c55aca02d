"""Files that would fill the memory or the disk if they were read as they are. `test_archive.py` has
those in archives."""

import lzma
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files import decompression
from elmo_plugin.formats import json_and_text
from elmo_plugin.formats.bilm_tf.texts import read_vocabulary_file
from elmo_plugin.formats.json_and_text import read_small_file
from elmo_plugin.text import lines
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.lines import read_blocks


def test_a_small_weight_file_of_large_arrays(bilm_files, monkeypatch):
    """The expected size is that of the arrays, by h5py. A limit of nothing stands for a gigabyte
    and a multiple of the compressed file's size."""
    for name in ("FREE_BYTES", "MOST_TIMES"):
        monkeypatch.setattr(json_and_text, name, 0)
    sizes: list[int] = []
    with h5py.File(bilm_files.weight_file) as file:
        file.visititems(lambda name, x: sizes.append(getattr(x, "nbytes", 0)))
    with pytest.raises(InputError, match=rf"hdf5: expected at most .* found {sum(sizes):,}"):
        Elmo.from_files(*bilm_files)


def test_a_vocabulary_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: a small compressed file can repeat a line without end; the first repetition is an
    error."""

    def blocks(*_: object) -> Iterator[list[str]]:
        yield [*SPECIAL_WORDS]
        while True:
            yield ["dog"]

    monkeypatch.setattr(lines, "read_blocks", blocks)
    with pytest.raises(InputError, match="line 5: expected each word once, found 'dog'"):
        read_vocabulary_file("words.txt")


def test_an_xz_file_that_needs_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says how much; a limit of a megabyte stands for the real one."""
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"the dog\n", preset=6))
    assert list(read_blocks(tmp_path / "text.xz")) == [["the dog"]]
    monkeypatch.setattr(decompression, "XZ_MEMORY", 1 << 20)
    with pytest.raises(InputError, match=r"text\.xz: expected .* found .*Memory usage limit"):
        list(read_blocks(tmp_path / "text.xz"))


def test_a_small_file(tmp_path: Path) -> None:
    """By definition, up to the last byte. A sparse file takes no space."""
    (tmp_path / "a").write_bytes(b"1234")
    assert read_small_file(tmp_path / "a", 4, "a file") == b"1234"
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    missing = {"a": "at most 3 bytes, found more", "large": "at most 3 bytes, found more"}
    for name, found in {**missing, "gone": "found no such file", ".": "found a folder"}.items():
        with pytest.raises(InputError, match=f"^{tmp_path / name}: expected a file.*{found}"):
            read_small_file(tmp_path / name, 3, "a file")
