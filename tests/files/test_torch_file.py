import errno
import os
import traceback
import zipfile
from io import FileIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.files import torch_file
from elmo_plugin.files.torch_file import (
    DamagedFileError,
    load_torch_file,
    load_weights,
    save_torch_file,
)
from elmo_plugin.formats.archive import read_weights


class FullOnce(FileIO):
    """A file on a disk that gets space again after the first failure, so that closing succeeds."""

    failed = False

    def write(self, content: object) -> int:
        if self.tell() > 4096 and not self.failed:
            self.failed = True
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)  # type: ignore[arg-type]


def test_the_disks_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch raises a `RuntimeError` about the end of its zip file, which does not say why."""
    state = {"weight": torch.ones(10_000)}
    monkeypatch.setattr(torch_file, "open", FullOnce, raising=False)
    with FullOnce(tmp_path / "plain.th", "wb") as file:
        with pytest.raises(RuntimeError, match="unexpected pos"):
            torch.save(state, file)
    with pytest.raises(OSError, match="No space left"):
        save_torch_file(state, tmp_path / "a.th")

    error: BaseException = RuntimeError("PyTorch's own")
    error.__context__ = RuntimeError("in between")
    error.__context__.__context__ = OSError("the disk's own")
    monkeypatch.setattr(torch, "save", Mock(side_effect=error))
    with pytest.raises(OSError, match="the disk's own"):
        save_torch_file(state, tmp_path / "a.th")


EXOTIC: dict[str, Any] = {
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "NestedTensor": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged
    ),
    "sparse_coo": lambda: torch.eye(2).to_sparse(),
    "sparse_csr": lambda: torch.eye(2).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "device meta": lambda: torch.ones(2, device="meta"),
    "conjugates": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "negatives": lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
    r"\(3,\) that repeats": lambda: torch.ones(1).expand(3),
    "type int": lambda: 3,
    "type list": lambda: [torch.ones(1)],
}


@pytest.mark.filterwarnings("ignore")  # PyTorch warns that some of them are in beta
@pytest.mark.parametrize("found", EXOTIC)
def test_what_is_no_plain_tensor(found: str, tmp_path: Path) -> None:
    """By definition: one sentence with the file, the name and the kind. `torch.load` reads all."""
    file = tmp_path / "best.th"
    torch.save({"good": torch.ones(2), "other": EXOTIC[found]()}, file)
    torch.load(file, weights_only=True)
    with pytest.raises(InputError, match=f"^{file}: other: expected a plain tensor.*{found}"):
        read_weights(tmp_path)


@pytest.mark.parametrize("state", [[torch.ones(1)], {1: torch.ones(1)}, torch.ones(1)])
def test_weights_without_names(state: Any, tmp_path: Path) -> None:
    """By definition, as above."""
    torch.save(state, tmp_path / "weights.th")
    with pytest.raises(InputError, match=r"weights\.th: expected (weights by name|names of)"):
        load_weights(tmp_path / "weights.th")


def test_plain_tensors(tmp_path: Path) -> None:
    """Tensors of any type, empty, transposed or shared by two names are as they were saved."""
    one = torch.arange(6.0).view(2, 3)
    state = {"one": one, "same": one, "part": one.t()[1:], "empty": torch.ones(0, 3)}
    state |= {"flag": torch.tensor(True), "complex": torch.ones(2, dtype=torch.complex64)}
    state["parameter"] = torch.nn.Parameter(one)
    torch.save(state, tmp_path / "weights.th")
    found = load_weights(tmp_path / "weights.th")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())


def test_a_compressed_file_is_not_decompressed(tmp_path, monkeypatch):
    """PyTorch stores without compression, so the size in the header is enough."""
    with zipfile.ZipFile(tmp_path / "a.th", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/data.pkl", bytes(1 << 20))
    monkeypatch.setattr(zipfile.ZipFile, "testzip", None)
    monkeypatch.setattr(torch_file, "get_unsafe_globals_in_checkpoint", lambda _: [])
    with pytest.raises(DamagedFileError, match="1048576 bytes of content in a smaller file"):
        torch_file.check_torch_file(tmp_path / "a.th")


class Trap:
    """A pickled object that would make a folder."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trap",)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_refused_pickle_has_no_advice(is_old, tmp_path, monkeypatch):
    """PyTorch's own message, which the first lines show, explains how to load the file unsafely.
    Expected: the function, and that it is not run, also in the chain of exceptions."""
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Trap()}, "a.th", _use_new_zipfile_serialization=not is_old)
    with pytest.raises(Exception, match="only if you"):
        torch.load("a.th", weights_only=True)
    with pytest.raises(DamagedFileError, match=r"a pickled \w+\.mkdir, which is not loaded") as end:
        load_torch_file("a.th", may_be_old=True)
    shown = "".join(traceback.format_exception(end.value))
    assert "weights_only" not in shown and "safe_globals" not in shown
    assert not (tmp_path / "trap").exists()
