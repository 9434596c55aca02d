import threading
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter

import elmo_plugin.plugin  # noqa: F401


def test_closing_starts_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python 3.12, no thread starts while the program ends, when tensorboardX closes the writers
    of a training that failed early. Here it is a thread that cannot start."""
    writer = SummaryWriter(str(tmp_path))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer.close()
