"""Files that would fill the memory or the disk if they were read as they are."""

import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files import decompression
from elmo_plugin.formats import json_and_text
from elmo_plugin.formats.bilm_tf.texts import read_options, read_vocabulary_file
from elmo_plugin.formats.json_and_text import read_small_file
from elmo_plugin.text import lines
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.lines import read_blocks
from tests.conftest import BLOCKS, BiLMFiles


@pytest.fixture
def no_free_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests would take long with files of a gigabyte."""
    monkeypatch.setattr(json_and_text, "FREE_BYTES", 0)


def compressed_weights(files: BiLMFiles, folder: Path) -> Path:
    """Zeros with the names and shapes of a weight file, compressed well."""
    path = folder / "weights.hdf5"
    with h5py.File(files.weight_file) as file, h5py.File(path, "w") as zeros:
        names: list[str] = []
        file.visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
        for name in names:
            shape = file[name].shape
            zeros.create_dataset(name, shape, "f4", data=0 * file[name][()], compression=9)
    return path


def wide(files: BiLMFiles, folder: Path) -> BiLMFiles:
    """Options of 2^24 numbers in a layer, and weights of zeros that take little space."""
    options = json.loads(Path(files.options_file).read_text())
    options["lstm"]["dim"] = 1 << 18
    (folder / "options.json").write_text(json.dumps(options))
    weights = compressed_weights(files, folder)
    with h5py.File(weights, "r+") as file:
        cells = [f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell" for d in (0, 1) for k in (0, 1)]
        p, d = BLOCKS["lstm"]["projection_dim"], 1 << 18
        for cell in cells:
            for name, shape in (("W_0", (2 * p, 4 * d)), ("B", (4 * d,)), ("W_P_0", (d, p))):
                del file[f"{cell}/{name}"]
                array = file.create_dataset(f"{cell}/{name}", shape, "f4", compression=9)
                array[...] = 0
        for name in ("memory", "output"):
            del file[f"warm_state/{name}"]
    return BiLMFiles(str(folder / "options.json"), str(weights))


def test_a_small_weight_file_of_large_arrays(
    bilm_files: BiLMFiles, tmp_path: Path, no_free_bytes: None
) -> None:
    """By hand: the LSTMs alone have 4 times 2^18 * (4 * 17 + 8) numbers of 4 bytes, some hundred
    times the size of the file."""
    files = wide(bilm_files, tmp_path)
    with pytest.raises(InputError, match=r"weights\.hdf5: expected at most .* found 31[0-9],"):
        Elmo.from_files(*files)


def test_a_small_zip_file_of_large_weights(tmp_path: Path, no_free_bytes: None) -> None:
    """By definition: the weights are not unpacked. The size is that of both files."""
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("options.json", "{}")
        file.writestr("weights.hdf5", bytes(1 << 20))
    with pytest.raises(
        InputError, match=r"zip: weights\.hdf5: expected at most .* found 1,048,578"
    ):
        Elmo.from_archive(tmp_path / "model.zip")


def test_a_small_archive_of_large_weights(tmp_path: Path, no_free_bytes: None) -> None:
    """As above."""
    member = tarfile.TarInfo("weights.th")
    member.size = 1 << 20
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as file:
        file.addfile(member, io.BytesIO(bytes(1 << 20)))
    with pytest.raises(InputError, match=r"gz: weights\.th: expected at most .* found 1,048,576"):
        Elmo.from_archive(tmp_path / "model.tar.gz")


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


@pytest.mark.parametrize("what", ["gone", "large"])
def test_options_that_are_none(what: str, tmp_path: Path) -> None:
    """By definition: one sentence that names the file. A sparse file takes no space."""
    path = tmp_path / "options.json"
    if what == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(InputError, match=f"^{path}: expected an options file in JSON.* found "):
        read_options(path)


def test_a_small_file(tmp_path: Path) -> None:
    """By definition, up to the last byte."""
    (tmp_path / "a").write_bytes(b"1234")
    assert read_small_file(tmp_path / "a", 4, "a file") == b"1234"
    with pytest.raises(InputError, match="a: expected a file of at most 3 bytes, found more"):
        read_small_file(tmp_path / "a", 3, "a file")
