"""Files that would fill the memory or the disk if they were read as they are. `test_archive.py` has
those in archives."""

import json
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
from elmo_plugin.formats.json_and_text import read_json, read_small_file
from elmo_plugin.text import lines
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.lines import read_blocks
from tests.conftest import write_bilm_files


def test_a_small_weight_file_of_large_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: the LSTMs alone have 4 times 2^14 * (4 * 17 + 8) numbers of 4 bytes, many times
    the size of the compressed file. A limit of nothing stands for a gigabyte."""
    monkeypatch.setattr(json_and_text, "FREE_BYTES", 0)
    files, p, d = write_bilm_files(tmp_path), 8, 1 << 14
    options = json.loads(Path(files.options_file).read_text())
    options["lstm"]["dim"] = d
    Path(files.options_file).write_text(json.dumps(options))
    with h5py.File(files.weight_file, "a") as file:
        del file["warm_state"], file.attrs["options.json"]
        shapes: dict[str, tuple[int, ...]] = {}
        for cell in (f"RNN_{r}/RNN/MultiRNNCell/Cell{k}/LSTMCell" for r in (0, 1) for k in (0, 1)):
            del file[cell]
            shapes |= {f"{cell}/W_0": (2 * p, 4 * d), f"{cell}/B": (4 * d,)}
            shapes |= {f"{cell}/W_P_0": (d, p)}
        for name, shape in shapes.items():
            file.create_dataset(name, shape, "f4", compression=9)[...] = 0
    with pytest.raises(InputError, match=r"weights\.hdf5: expected at most .* found 19,9"):
        Elmo.from_files(*files)


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


def test_json_that_is_no_object(tmp_path: Path) -> None:
    """By definition."""
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(InputError, match=r"a\.json: expected a config in JSON, an object, found"):
        read_json(tmp_path / "a.json", "a config")
