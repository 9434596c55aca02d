"""These tests check the strict reader of HDF5 files against files that h5py itself wrote, array by
array."""

import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.files import hdf5
from elmo_plugin.files.hdf5 import VERSION, find_array, open_hdf5, read_rows, read_text, write_array
from elmo_plugin.formats.bilm_tf.weights import HDF5Arrays

NUMBERS = np.arange(6, dtype="float32").reshape(2, 3)


def read(path: Path, name: str = "a/x") -> np.ndarray:
    with open_hdf5(path) as file:
        assert find_array(file, name) is not None
        return torch.cat(list(HDF5Arrays(file).rows(name, torch.float32))).numpy()


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"chunks": (1, 3)},
        {"compression": "gzip", "shuffle": True},
        {"compression": "lzf", "fletcher32": True},
        {"scaleoffset": 3},
    ],
    ids=str,
)
def test_plain_numbers_are_read(tmp_path, dtype, properties):
    """The expected numbers are those that h5py wrote, in float32."""
    if "scaleoffset" in properties and dtype.endswith("f2"):
        pytest.skip("HDF5 has no such filter for float16")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.create_dataset("a/x", data=NUMBERS.astype(dtype), **properties)
    found = read(tmp_path / "x.hdf5")
    assert found.dtype == np.float32 and found.dtype.isnative
    np.testing.assert_array_equal(found, NUMBERS)


def numbers(value, dtype):
    return lambda file: file.create_dataset("a/x", data=np.full((2, 3), value, dtype))


def enumeration(file):
    file.create_dataset("a/x", (2, 3), h5py.enum_dtype({"one": 1}), data=np.ones((2, 3), int))


def virtual(file):
    file["y"] = NUMBERS
    layout = h5py.VirtualLayout((2, 3), "f4")
    layout[:] = h5py.VirtualSource(file["y"])
    file.create_virtual_dataset("a/x", layout)


def external(file):
    secret = Path(file.filename).with_name("secret")
    secret.write_bytes(b"any file's bytes as weights")
    file.create_dataset("a/x", (2, 3), "f4", external=[(str(secret), 0, 24)])


def written_in_part(file):
    file.create_dataset("a/x", (2, 3), "f4", chunks=(1, 3))[0] = 1


def soft_link(file):
    file["y"] = NUMBERS
    file["a/x"] = h5py.SoftLink("/y")


def external_link(file):
    other = Path(file.filename).with_name("other.hdf5")
    with h5py.File(other, "w") as target:
        target["x"] = NUMBERS
    file["a"] = h5py.ExternalLink(str(other), "/")


def large_chunk(file):
    """HDF5 would take 4 bytes for each of the chunk's 2^26 numbers."""
    options = {"chunks": (1 << 26, 1), "maxshape": (None, None), "compression": "lzf"}
    file.create_dataset("a/x", data=NUMBERS[:, :1], **options)


@pytest.mark.parametrize(
    "write, message",
    [
        (numbers(0, "complex64"), "floating-point numbers, found complex64"),
        (numbers(0, "bool"), "floating-point numbers, found bool"),
        (numbers(b"", "S4"), "floating-point numbers, found .S4"),
        (numbers(0, [("real", "f4")]), "floating-point numbers, found .*real"),
        (enumeration, "floating-point numbers, found uint8"),
        (lambda file: file.update({"a/x": [["1", "2"]]}), "floating-point numbers, found object"),
        (virtual, "numbers in the file itself"),
        (external, "numbers in the file itself"),
        (lambda file: file.create_dataset("a/x", (2, 3), "f4"), "a part that was never written"),
        (written_in_part, "a part that was never written"),
        (soft_link, "a link to another place"),
        (external_link, "a link to another place"),
        (large_chunk, "chunks of .* found 268,435,456 bytes"),
    ],
)
def test_anything_else_is_refused(tmp_path, write, message):
    """The message names the file, the array, what was expected and what was found."""
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        write(file)
    with pytest.raises(InputError, match=rf"x\.hdf5: a/x: expected .*{message}"):
        read(tmp_path / "x.hdf5")


def test_names_that_are_not_arrays(tmp_path):
    """A group, a name below an array and a missing name are not arrays."""
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["a/x"] = NUMBERS
    with open_hdf5(tmp_path / "x.hdf5") as file:
        assert [find_array(file, name) for name in ("a", "a/x/y", "b", "b/c")] == [None] * 4


def test_paths_that_are_not_hdf5_files(tmp_path):
    """The message names the path and what was found there."""
    for path, found in ((tmp_path / "gone", "no such file"), (tmp_path, "a folder")):
        with pytest.raises(InputError, match=f"^{path}: expected an HDF5 file, found {found}"):
            read(path)


def test_blocks_and_texts(tmp_path, monkeypatch):
    """By hand: blocks have 3 rows, or 4 if a chunk has 2. A text of variable length has no checksum
    in HDF5."""
    monkeypatch.setattr(hdf5, "BLOCK_BYTES", 36)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["plain"] = np.zeros((10, 3), "f4")
        file.create_dataset("chunks", data=file["plain"][()], chunks=(2, 3))
        file.attrs["text"] = "of variable length"
    with open_hdf5(tmp_path / "x.hdf5") as file:
        assert [len(block) for block in read_rows(file["plain"])] == [3, 3, 3, 1]
        assert [len(block) for block in read_rows(file["chunks"])] == [4, 4, 2]
        with pytest.raises(InputError, match="text: expected readable content, found the type obj"):
            read_text(file, "text")


def test_the_same_numbers_are_the_same_bytes(tmp_path):
    """A file holds no time of day, so two files of the same numbers are equal."""
    for name in ("x", "y"):
        if name == "y":
            time.sleep(1.1)  # HDF5 counts seconds
        with h5py.File(tmp_path / name, "w", libver=(VERSION, VERSION)) as file:
            write_array(file, "a/b/x", NUMBERS)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_other_numbers_than_those_written(tmp_path):
    """Only a digest shows the change of a single bit."""
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        write_array(file, "a/x", NUMBERS)
        offset = file["a/x"].id.get_offset()
    np.testing.assert_array_equal(read(path), NUMBERS)
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.hdf5: a/x: expected .* written, found damage"):
        read(path)
