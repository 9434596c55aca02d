import errno
from io import FileIO
from pathlib import Path

import pytest
import torch

from elmo_plugin.files import torch_file
from elmo_plugin.files.torch_file import save_torch_file


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
